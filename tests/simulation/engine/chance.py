"""Keyed chance: a draw depends on the seed, on what it is for, and on how often that was asked; on nothing else.

So taking one message, fault or operation out of a run leaves every other draw as it was, which is what makes a
failing plan shrink. A crc32 over the key and a few multiplications cost a tenth of a new `random.Random`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

_MASK = 0xFFFFFFFF
_SCALE = 1.0 / (1 << 32)


def mixed(x: int) -> float:
    """A number of [0, 1) from 32 bits: crc32 alone is linear, and neighbouring keys would be related."""
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _MASK
    return (x ^ (x >> 16)) * _SCALE


def key_of(seed: int, *names: str) -> int:
    """The key of everything that is drawn for these names."""
    return crc32("\0".join((str(seed), *names)).encode())


class Stream:
    """The draws for one purpose, one after the other."""

    __slots__ = ("_drawn", "_key")

    def __init__(self, key: int) -> None:
        self._key = key
        self._drawn = 0

    def bits(self) -> int:
        self._drawn += 1
        return crc32(self._drawn.to_bytes(4, "little"), self._key)

    def unit(self) -> float:
        """A number of [0, 1)."""
        return mixed(self.bits())

    def happens(self, probability: float) -> bool:
        return self.unit() < probability

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.unit()

    def exponential(self, mean: float) -> float:
        return -mean * log(1.0 - self.unit())

    def below(self, limit: int) -> int:
        """An integer of 0 … limit−1."""
        return int(self.unit() * limit)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]
