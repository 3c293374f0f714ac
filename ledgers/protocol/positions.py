"""All places of a writer's ensemble, and the arithmetic over what they have answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from metadata.records.ledger_record import Ensemble

from .effects import OpenLane
from .position import Position
from .quorum import Outcome
from .striping import Striping


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
        return any(position.behind for position in self._positions)

    @property
    def ensemble(self) -> Ensemble:
        return tuple(position.bookie for position in self._positions)

    def on(self, lane: int) -> Position | None:
        """The place that the lane serves; None where it serves none any more."""
        return next((position for position in self._positions if position.lane == lane), None)

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
        return self._striping.confirmed_through(self.acked(), last_pushed)

    def accepted_through(self, last_pushed: int) -> int:
        """The last entry that an ack quorum has in its logs, with all before it."""
        written = {n: position.written_through for n, position in enumerate(self._positions)}
        return self._striping.confirmed_through(written, last_pushed)

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
