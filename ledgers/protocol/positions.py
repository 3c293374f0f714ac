"""The positions of a writer's ensemble, each with its bookie, lane and acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from metadata.records.ledger_record import BookieRef, Ensemble

from .ledger_effects import OpenLane
from .quorum import Outcome
from .striping import Striping

WAS_ABSENT = "was absent when the ledger was created"


@dataclass(slots=True)
class Position:
    """One position of the ensemble. `lane` is None while its bookie counts as failed. `behind`: why the bookie is being
    replaced although it makes progress (rule W6).

    Entries through `acked_through` are on the bookie's disk, entries through `written_through` at least in its log.
    `failure` is the reason why the bookie failed, until it answers again. `on_trial`: the bookie was taken back after a
    failure, and has not answered since.
    """

    bookie: BookieRef
    lane: int | None
    acked_through: int
    written_through: int
    failure: str = ""
    on_trial: bool = False
    behind: str = ""

    @property
    def wanting(self) -> str:
        """Why a replacement is sought; empty if none is."""
        return self.behind if self.lane is not None else self.failure

    def answered(self, *, acked: int, written: int) -> bool:
        """Records acknowledgements; returns whether they are new."""
        assert acked <= written
        if acked <= self.acked_through and written <= self.written_through:
            return False
        if acked > self.acked_through:
            self.acked_through = acked
        if written > self.written_through:
            self.written_through = written
        self.on_trial, self.failure = False, ""
        return True

    def fails(self, why: str) -> None:
        """Closes the lane, so that nothing more is sent to the bookie over it."""
        self.lane, self.failure, self.behind = None, why, ""

    def withdraw(self, through: int) -> None:
        """Withdraws all acknowledgements after this entry (F8)."""
        self.acked_through = self.written_through = through
        self.behind = ""

    def serve_by(self, bookie: BookieRef) -> None:
        """Assigns another bookie to the position."""
        self.bookie, self.on_trial, self.failure = bookie, False, ""


_ACKED, _WRITTEN = attrgetter("acked_through"), attrgetter("written_through")


class Positions:
    """The positions by number. Lanes are numbered in the order of opening, and no number is reused."""

    def __init__(
        self, ensemble: Ensemble, striping: Striping, through: int, absent: Iterable[int] = ()
    ) -> None:
        self._positions = [Position(bookie, None, through, through) for bookie in ensemble]
        for number in absent:
            self._positions[number].fails(WAS_ABSENT)
        self._striping = striping
        self._lanes_made = 0

    def __getitem__(self, number: int) -> Position:
        return self._positions[number]

    def __iter__(self) -> Iterator[Position]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def are_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait (rule W6)."""
        for position in self._positions:  # noqa: SIM110 — with every append; a generator takes three times as long
            if position.behind:
                return True
        return False

    @property
    def ensemble(self) -> Ensemble:
        return tuple(position.bookie for position in self._positions)

    def on(self, lane: int) -> Position | None:
        """Returns the position that the lane serves; None if it no longer serves any."""
        for position in self._positions:
            if position.lane == lane:
                return position
        return None

    def open_lane(self, position: Position) -> OpenLane:
        self._lanes_made += 1
        position.lane = self._lanes_made
        return OpenLane(self._lanes_made, position.bookie)

    def lanes(self) -> list[int]:
        return [position.lane for position in self._positions if position.lane is not None]

    def acked(self) -> dict[int, int]:
        """Returns, for each position, the entry through which all of the position's entries are on disk."""
        return {n: position.acked_through for n, position in enumerate(self._positions)}

    def confirmed_through(self, last_pushed: int) -> int:
        """Returns the last entry that, together with all entries before it, is on the disks of an ack quorum."""
        return self._striping.confirmed_through(list(map(_ACKED, self._positions)), last_pushed)

    def accepted_through(self, last_pushed: int) -> int:
        """Returns the last entry that, together with all entries before it, is in the logs of an ack quorum."""
        return self._striping.confirmed_through(list(map(_WRITTEN, self._positions)), last_pushed)

    def failed(self) -> dict[int, str]:
        """Returns the positions without a lane, each with the reason."""
        return {n: p.failure for n, p in enumerate(self._positions) if p.lane is None}

    def failures(self) -> dict[str, str]:
        """Failures by bookie, for bookies that have acknowledged nothing since they failed."""
        return {str(position.bookie): position.failure for position in self._positions if position.failure}

    def wanting(self) -> dict[int, str]:
        """Returns the positions whose bookie must be replaced because it failed or is behind, with the reasons."""
        return {n: p.wanting for n, p in enumerate(self._positions) if p.lane is None or p.behind}

    def would_lose_quorum(self, not_replaced: Iterable[int]) -> bool:
        """Returns whether some entries could never be confirmed if the failed positions in `not_replaced` stayed
        without a bookie."""
        dead = [n for n in not_replaced if self._positions[n].lane is None]
        return bool(dead) and any(
            quorum.outcome((), dead) is Outcome.LOST for quorum in self._striping.ack_quorums
        )

    def are_awaited(self, through: int) -> bool:
        """Returns whether copies of entries up to and including this one are still in flight. A lane that makes no
        progress is reported as failed, so the wait ends."""
        return any(
            position.lane is not None
            and self._striping.held_between(n, position.acked_through + 1, through) is not None
            for n, position in enumerate(self._positions)
        )
