"""What disks, copies and editors do to bytes: Hypothesis strategies for damage that parsers must live with.

Offsets are drawn without knowing how many bytes there are, and wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

CHANGES_MAX = 3
"""Most changes of one example; what is found with more is found with fewer."""

STRETCH_BYTES_MAX = 600
"""Longest stretch that one change touches."""


@dataclass(frozen=True)
class Flip:
    """One bit is another."""

    at: int
    bit: int

    def apply(self, data: bytearray) -> None:
        data[self.at % len(data)] ^= 1 << self.bit


@dataclass(frozen=True)
class Overwrite:
    """Other bytes stand here: zeros, or anything."""

    at: int
    other: bytes

    def apply(self, data: bytearray) -> None:
        start = self.at % len(data)
        end = min(len(data), start + len(self.other))
        data[start:end] = self.other[: end - start]


@dataclass(frozen=True)
class Cut:
    """All from here on is gone."""

    at: int

    def apply(self, data: bytearray) -> None:
        del data[self.at % len(data) :]


@dataclass(frozen=True)
class Misdirect:
    """A stretch stands a second time, in the place of another."""

    source: int
    to: int
    size: int

    def apply(self, data: bytearray) -> None:
        source, to = self.source % len(data), self.to % len(data)
        stretch = data[source : source + min(self.size, len(data) - to)]
        data[to : to + len(stretch)] = stretch


@dataclass(frozen=True)
class Swap:
    """Two stretches stand in each other's place."""

    one: int
    other: int
    size: int

    def apply(self, data: bytearray) -> None:
        one, other = sorted((self.one % len(data), self.other % len(data)))
        size = min(self.size, other - one, len(data) - other)
        data[one : one + size], data[other : other + size] = (
            data[other : other + size],
            data[one : one + size],
        )


@dataclass(frozen=True)
class Remove:
    """A stretch is missing, and what came behind it has moved up."""

    at: int
    size: int

    def apply(self, data: bytearray) -> None:
        start = self.at % len(data)
        del data[start : start + self.size]


@dataclass(frozen=True)
class Insert:
    """There is something between two bytes, or behind the last, that was never written."""

    at: int
    new: bytes

    def apply(self, data: bytearray) -> None:
        start = self.at % (len(data) + 1)
        data[start:start] = self.new


Change = Flip | Overwrite | Cut | Misdirect | Swap | Remove | Insert

noise = st.binary(min_size=1, max_size=64) | st.integers(1, STRETCH_BYTES_MAX).map(bytes)


def changes(edges: Sequence[int] = (), lengths: Sequence[int] = ()) -> st.SearchStrategy[tuple[Change, ...]]:
    """Some changes. Half of them begin at `edges` and have one of these `lengths`, where there are any."""
    offsets = st.integers(0, 1 << 16)
    sizes = st.integers(1, STRETCH_BYTES_MAX)
    if edges:
        offsets = st.sampled_from(edges) | offsets
    if lengths:
        sizes = st.sampled_from(lengths) | sizes
    one = st.one_of(
        st.builds(Flip, offsets, st.integers(0, 7)),
        st.builds(Overwrite, offsets, noise),
        st.builds(Cut, offsets),
        st.builds(Misdirect, offsets, offsets, sizes),
        st.builds(Swap, offsets, offsets, sizes),
        st.builds(Remove, offsets, sizes),
        st.builds(Insert, offsets, noise),
    )
    return st.lists(one, min_size=1, max_size=CHANGES_MAX).map(tuple)


def changed(data: bytes, by: tuple[Change, ...]) -> bytes:
    """`data` after these changes, one after the other; nothing happens to what is empty."""
    now = bytearray(data)
    for change in by:
        if now:
            change.apply(now)
    return bytes(now)
