"""The places of a writer's ensemble: which bookie serves each, over which lane, and what it has answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from metadata.records.ledger_record import BookieRef, Ensemble

from .effects import OpenLane
from .quorum import Outcome
from .striping import Striping


@dataclass(slots=True)
class Position:
    """`lane` is None while its bookie is failed. `behind`: why it is being replaced though it moves (rule W6).

    `acked_through` is on its disk, `written_through` in its log at least. `failure` is what its bookie
    failed with, until it has answered something since; `on_trial`: taken back after a failure, and nothing
    answered since.
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
        """Why another bookie is looked for; empty where none is."""
        return self.behind if self.lane is not None else self.failure

    def answered(self, *, acked: int, written: int) -> bool:
        """Notes how far it has come; says whether that is news."""
        if acked <= self.acked_through and written <= self.written_through:
            return False
        self.acked_through = max(self.acked_through, acked)
        self.written_through = max(self.written_through, acked, written)
        self.on_trial, self.failure = False, ""
        return True

    def fails(self, why: str) -> None:
        """Nothing more is sent to its bookie over this lane."""
        self.lane, self.failure, self.behind = None, why, ""

    def withdraw(self, through: int) -> None:
        """Nothing that it answered beyond this entry counts any more (F8)."""
        self.acked_through = self.written_through = through
        self.behind = ""

    def serve_by(self, bookie: BookieRef) -> None:
        """Another bookie takes the place."""
        self.bookie, self.on_trial, self.failure = bookie, False, ""


class Positions:
    """The places by number. Lanes are numbered in the order in which they are opened, and no number comes twice."""

    def __init__(self, ensemble: Ensemble, striping: Striping, through: int) -> None:
        self._positions = [Position(bookie, None, through, through) for bookie in ensemble]
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
        """Whether some bookie is so far behind that nothing more ought to be appended for now (rule W6)."""
        for position in self._positions:  # noqa: SIM110 — with every append; a generator takes three times as long
            if position.behind:
                return True
        return False

    @property
    def ensemble(self) -> Ensemble:
        return tuple(position.bookie for position in self._positions)

    def on(self, lane: int) -> Position | None:
        """The place that the lane serves; None where it serves none any more."""
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
        """Through which entry each place has all that it holds on disk."""
        return {n: position.acked_through for n, position in enumerate(self._positions)}

    def confirmed_through(self, last_pushed: int) -> int:
        """The last entry that an ack quorum has on disk, with all before it."""
        return self._striping.confirmed_through([p.acked_through for p in self._positions], last_pushed)

    def accepted_through(self, last_pushed: int) -> int:
        """The last entry that an ack quorum has in its logs, with all before it."""
        return self._striping.confirmed_through([p.written_through for p in self._positions], last_pushed)

    def failed(self) -> dict[int, str]:
        """The places without a lane, and why."""
        return {n: p.failure for n, p in enumerate(self._positions) if p.lane is None}

    def failures(self, *, only_now: bool = False) -> dict[str, str]:
        """By bookie what each failed with and has acknowledged nothing since; `only_now`: those without a lane."""
        failed = [p for p in self._positions if (p.lane is None if only_now else p.failure)]
        return {str(position.bookie): position.failure for position in failed}

    def wanting(self) -> dict[int, str]:
        """The places that another bookie is looked for: those that failed, and those that are behind."""
        return {n: p.wanting for n, p in enumerate(self._positions) if p.lane is None or p.behind}

    def would_lose_quorum(self, not_replaced: Iterable[int]) -> bool:
        """Whether without those of these places that failed some entry could never be confirmed."""
        dead = [n for n in not_replaced if self._positions[n].lane is None]
        return any(quorum.outcome((), dead) is Outcome.LOST for quorum in self._striping.ack_quorums)

    def are_awaited(self, through: int) -> bool:
        """Whether copies of entries through this one are on their way: a lane that moves no more fails by itself."""
        return any(
            position.lane is not None
            and self._striping.held_between(n, position.acked_through + 1, through) is not None
            for n, position in enumerate(self._positions)
        )
