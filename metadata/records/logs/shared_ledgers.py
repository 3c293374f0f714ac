"""Ledgers that a log shares with its forks.

A ledger belongs to the log that created it. That log's record lists the forks that also have some of its ledgers, and
the positions that they need. So a single record shows whether any log needs a ledger, and each change to that is one
compare-and-swap (rule L13). The forks' own records and pages only list where their records are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

FORKS_MAX = 100
"""Maximum number of forks listed in a log's record. A fork of a fork counts for each log whose ledgers it has."""

MAKERS_MAX = 16
"""Maximum number of other logs whose ledgers one log can have; a fork of a fork can have ledgers of several logs."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Another log that has ledgers of this log. It needs positions `start` … `stop` - 1."""

    identity: bytes
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"a fork cannot need positions {self.start} to {self.stop - 1}")

    def needs(self, start: int, stop: int | None) -> bool:
        """Returns whether the fork needs any of these positions; without a `stop`, any from `start` on."""
        return start < self.stop and (stop is None or self.start < stop)

    def released(self, start: int) -> Fork | None:
        """Returns the fork after it has released the positions before `start`; None if it then needs no positions."""
        return replace(self, start=max(start, self.start)) if start < self.stop else None


@dataclass(frozen=True, slots=True)
class Maker:
    """Another log: the one that created the ledgers of this log's positions from the previous maker's `stop` up to, but
    not including, this maker's `stop`."""

    identity: bytes
    stop: int


@dataclass(frozen=True, slots=True)
class Successor:
    """The fork that took a log's name when the log was restored to an earlier state."""

    identity: bytes
    name: str


def check_makers(makers: Sequence[Maker]) -> None:
    """Raises ValueError unless the positions of the makers increase, and there are at most MAKERS_MAX makers."""
    stops = [0, *(one.stop for one in makers)]
    if len(makers) > MAKERS_MAX or any(
        stop <= before for before, stop in zip(stops, stops[1:], strict=False)
    ):
        raise ValueError(
            f"a log can have ledgers of at most {MAKERS_MAX} other logs, with increasing end positions, not {stops[1:]}"
        )


def makers_before(makers: Sequence[Maker], identity: bytes, start: int, stop: int) -> tuple[Maker, ...]:
    """Returns the makers of the ledgers of positions `start` … `stop` - 1, for a log that has these makers and this
    identity."""
    if start >= stop:
        return ()
    found = [
        replace(one, stop=min(one.stop, stop)) for one in (*makers, Maker(identity, stop)) if start < one.stop
    ]
    return tuple(one for n, one in enumerate(found) if n == 0 or found[n - 1].stop < one.stop)
