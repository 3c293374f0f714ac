"""Watches from outside that a writer confirms what has its ack quorum, however slow the other bookies are (W6)."""

from __future__ import annotations

from collections.abc import Container

from metadata.records.ledger_record import Shape

from .checks import Checker


class AckWatch:
    """The acks of the writer's lanes, by position of the ensemble."""

    def __init__(self, shape: Shape, checker: Checker) -> None:
        self._shape = shape
        self._checker = checker
        self._position_of: dict[int, int] = {}
        self._acked: dict[int, tuple[int, int]] = {}

    def opened(self, lane: int, position: int) -> None:
        """The lane serves this position from now on: what an earlier one has acknowledged counts no more."""
        self._position_of[lane] = position
        self._acked[position] = (lane, -1)

    def acked(self, lane: int, through: int) -> None:
        """The writer was handed this ack."""
        position = self._position_of[lane]
        if self._acked[position][0] == lane:
            self._acked[position] = (lane, max(through, self._acked[position][1]))

    def check(self, confirmed: int, pushed: int, open_lanes: Container[int]) -> None:
        """Nothing that Qa of its write set have acknowledged waits. Raises Violation."""
        first, shape = confirmed + 1, self._shape
        if first > pushed:
            return
        holders = [
            self._holds((first + step) % shape.ensemble_size, first, open_lanes)
            for step in range(shape.write_quorum)
        ]
        if sum(holders) >= shape.ack_quorum:
            self._checker.delayed(first)

    def _holds(self, position: int, entry_id: int, open_lanes: Container[int]) -> bool:
        lane, through = self._acked.get(position, (0, -1))
        return lane in open_lanes and through >= entry_id
