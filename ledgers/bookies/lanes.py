"""The lanes of one ledger: performs the pipeline's effects on them, and forwards their reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bookie.wire import LacStatement, Status

from ..bookie_client import Lane, LaneTerms
from ..cluster import Cluster
from ..errors import LedgerError, LedgerFenced, LedgerIdReused, Unauthorized
from ..protocol.ledger_effects import CloseLane, Force, OpenLane, Send

if TYPE_CHECKING:
    from ..observing.client_tracing import LaneTraces


class PipelineEvents(Protocol):
    """The events of the append pipeline that lanes report to a shell, which performs the resulting effects."""

    def acked(self, lane: int, through: int) -> None: ...
    def written(self, lane: int, through: int) -> None: ...
    def lane_behind(self, lane: int, why: str) -> None: ...
    def lane_caught_up(self, lane: int) -> None: ...
    def lane_failed(self, lane: int, why: str) -> None: ...
    def refused(self, lane: int, error: LedgerError) -> None: ...


class Lanes:
    """The lanes of one ledger by number."""

    def __init__(
        self,
        cluster: Cluster,
        terms: LaneTerms,
        events: PipelineEvents,
        last_add_confirmed: Callable[[], LacStatement | None],
        traces: LaneTraces | None = None,
    ) -> None:
        self._cluster = cluster
        self._terms = terms
        self._events = events
        self._last_add_confirmed = last_add_confirmed
        self._traces = traces
        self._lanes: dict[int, Lane] = {}

    def open(self, effect: OpenLane) -> None:
        listener = _LaneEvents(self._cluster, self._events, effect, self._terms.ledger_id, self._traces)
        terms = self._terms
        if self._traces is not None:
            self._traces.opened(effect.lane, effect.bookie)
            terms = replace(terms, trace_of=partial(self._traces.trace_of, effect.lane))
        if self._cluster.metrics is not None:
            self._cluster.metrics.lanes.inc()
        self._lanes[effect.lane] = self._cluster.bookies.open_lane(
            effect.bookie, terms, listener, self._last_add_confirmed
        )

    def send(self, effect: Send) -> None:
        lane = self._lanes.get(effect.lane)
        if lane is not None:
            if self._traces is not None:
                self._traces.sent(effect.lane, effect.columns)
            lane.send(effect.columns)

    def force(self, effect: Force) -> None:
        lane = self._lanes.get(effect.lane)
        if lane is not None:
            lane.force()

    def close(self, effect: CloseLane) -> None:
        if effect.lane in self._lanes:
            self._close(effect.lane)

    def send_lac(self) -> None:
        """Sends the current last-add-confirmed to every bookie of the ensemble."""
        for lane in self._lanes.values():
            lane.send_lac()

    @property
    def are_drained(self) -> bool:
        return not any(lane.backlog_bytes for lane in self._lanes.values())

    def close_all(self) -> None:
        for number in list(self._lanes):
            self._close(number)

    def _close(self, number: int) -> None:
        self._lanes.pop(number).close()
        if self._traces is not None:
            self._traces.closed(number)
        if self._cluster.metrics is not None:
            self._cluster.metrics.lanes.dec()


@dataclass(slots=True)
class _LaneEvents:
    """Forwards the reports of one lane, together with its number."""

    cluster: Cluster
    events: PipelineEvents
    opened: OpenLane
    ledger_id: int
    traces: LaneTraces | None

    def acked(self, through: int) -> None:
        if self.traces is not None:
            self.traces.acked(self.opened.lane, through)
        self.events.acked(self.opened.lane, through)

    def written(self, through: int) -> None:
        self.events.written(self.opened.lane, through)

    def behind(self, why: str) -> None:
        self.cluster.note_failure(self.opened.bookie)
        self.events.lane_behind(self.opened.lane, why)

    def caught_up(self) -> None:
        self.events.lane_caught_up(self.opened.lane)

    def failed(self, why: str) -> None:
        self.cluster.note_failure(self.opened.bookie)
        if self.traces is not None:
            self.traces.failed(self.opened.lane, why)
        self.events.lane_failed(self.opened.lane, why)

    def refused(self, status: Status, why: str) -> None:
        if status is Status.UNAUTHORIZED:
            error: LedgerError = Unauthorized(self.ledger_id, by_bookie=True, why=why)
        elif status is Status.WRONG_IDENTITY:
            error = LedgerIdReused(self.ledger_id, str(self.opened.bookie), why)
        else:
            reason = f": {why}" if why else ""
            error = LedgerFenced(self.ledger_id, f"bookie {self.opened.bookie} refuses its writer{reason}")
        if self.traces is not None:
            self.traces.failed(self.opened.lane, str(error))
        self.events.refused(self.opened.lane, error)
