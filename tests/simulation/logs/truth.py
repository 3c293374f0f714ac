"""What was confirmed, and what readers saw: one record at each position, for ever."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ledgers.logs.record_batch import Record
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment
from tests.simulation.engine.world import Violation, World

from .ledgers import Ledger
from .probes import LogProbe


@dataclass(frozen=True, slots=True)
class Seen:
    """The record at a position, as somebody was told of it."""

    payload: bytes
    by: str


class Truth:
    """Checks as it happens. `log` and `segments`: what stands in the metadata, the latter also in pages."""

    def __init__(
        self, world: World, log: Callable[[], LogRecord], segments: Callable[[], list[Segment]]
    ) -> None:
        self._world = world
        self._log = log
        self._segments = segments
        self._at: dict[int, Seen] = {}
        self._positions: dict[bytes, int] = {}
        self._times: dict[int, int] = {}
        self._begun: dict[int, int] = {}
        self.confirmed: dict[int, bytes] = {}
        self._records: dict[bytes, LogRecord] = {}
        self.is_given_up = False
        """Whether the log is being deleted, in the end of a run."""
        self.violation: Violation | None = None
        """The first one: where the product hears of it, that makes an error of its own of it."""

    def _broken(self, rule: str, what: str) -> Violation:
        violation = Violation(rule, what)
        self.violation = self.violation or violation
        return violation

    def begun(self, epoch: int, first_position: int) -> None:
        """A take-over has succeeded."""
        if epoch in self._begun:
            raise self._broken("L1", f"two take-overs have epoch {epoch}")
        later = [e for e, start in self._begun.items() if e > epoch and start < first_position]
        if later:
            raise self._broken(
                "L1", f"epoch {epoch} begins at {first_position}, behind that of epoch {later[0]}"
            )
        self._begun[epoch] = first_position

    def confirm(self, epoch: int, position: int, payload: bytes, by: str) -> None:
        """A writer told its application that this record is in the log."""
        newer = [e for e, start in self._begun.items() if e > epoch and start <= position]
        if newer:
            raise self._broken(
                "L1", f"{by} of epoch {epoch} confirms {position}, which is epoch {newer[0]}'s"
            )
        self._agree(position, payload, by)
        self.confirmed[position] = payload

    def read(self, record: Record, by: str) -> None:
        """A reader got this record."""
        self._agree(record.position, record.payload, by)
        known = self._times.setdefault(record.position, record.time)
        if known != record.time:
            raise self._broken(
                "L3", f"{by} reads {record.position} with time {record.time}, others with {known}"
            )

    def _agree(self, position: int, payload: bytes, by: str) -> None:
        seen = self._at.setdefault(position, Seen(payload, by))
        if seen.payload != payload:
            raise self._broken(
                "L3", f"position {position} is {payload!r} to {by}, and {seen.payload!r} to {seen.by}"
            )
        where = self._positions.setdefault(payload, position)
        if where != position:
            raise self._broken("L3", f"{payload!r} is at {where} and, to {by}, at {position}")

    def all_read(self, records: list[Record]) -> None:
        """Somebody read all that is left, once everything was calm."""
        first = self._log().first_position
        if [one.position for one in records] != list(range(first, first + len(records))):
            raise self._broken("L3", f"positions {[one.position for one in records]} from {first} on")
        lost = [position for position in self.confirmed if position >= first + len(records)]
        if lost:
            raise self._broken("L2", f"confirmed, and not in the log: {lost[:3]}")

    def sequences_rise(self, records: list[Record]) -> None:
        """Of each producer."""
        last: dict[str, int] = {}
        for one in records:
            if one.producer is not None and one.sequence is not None:
                if one.sequence <= last.get(one.producer, -1):
                    raise self._broken(
                        "L10", f"{one.producer} has {one.sequence} behind {last[one.producer]}"
                    )
                last[one.producer] = one.sequence

    def went_back(self, log: LogRecord) -> None:
        """The metadata did, to this record of the log. Ledgers may tell of a truncation after the end of its hold."""
        self._records = {log.identity: replace(log, legal_hold=False)}

    def brought_up(self, epochs: Collection[int]) -> None:
        """The log was, to segments of these epochs. One that left no segment may be given again."""
        self._begun = {epoch: first for epoch, first in self._begun.items() if epoch in epochs}

    def changed(self, log: LogRecord) -> None:
        """A record of a log was written."""
        before = self._records.get(log.identity, log)
        self._records[log.identity] = log
        if log.first_position < before.first_position:
            raise self._broken("L6", f"what is left of log {log.name} begins at {log.first_position} again")
        if log.election == before.election and log.token < before.token:
            raise self._broken(
                "L7", f"a leader of term {log.token} writes to log {log.name} after {before.token}"
            )
        if before.legal_hold and log.first_position > before.first_position:
            raise self._broken("L6", f"log {log.name} is truncated under a legal hold")

    def deletes(self, ledger: Ledger) -> None:
        """A ledger is being deleted, by the log's code or an audit."""
        said = segment_of(ledger.record.custom_metadata)
        assert said is not None
        if self.is_given_up:
            return
        log = self._log()
        if said.identity != log.identity:
            return  # of the set
        in_chain = [s for s in log.segments if s.ledger_id == ledger.ledger_id]
        first = said.first_position
        end = first + len(ledger.entries)
        kept = [p for p in self.confirmed if first <= p < end and p >= log.first_position]
        ours = [p for p in kept if self.confirmed[p] in ledger.entries[p - first]]
        if in_chain and (in_chain[0].end_position is None or in_chain[0].end_position > log.first_position):
            raise self._broken("L6", f"ledger {ledger.ledger_id} is deleted, a segment with something left")
        if ours and not self._is_elsewhere(ledger, ours[0]):
            raise self._broken("L6", f"ledger {ledger.ledger_id} is deleted, which has position {ours[0]}")
        if log.legal_hold and end > first and in_chain:
            raise self._broken("L6", f"ledger {ledger.ledger_id} is deleted under a legal hold")
        self._world.reached(LogProbe.DELETED)

    def _is_elsewhere(self, ledger: Ledger, position: int) -> bool:
        """A record of a segment that was dropped was appended to the next one as well, or by its producer again."""
        holding = [s.ledger_id for s in self._segments() if s.holds(position)]
        return bool(holding) and ledger.ledger_id not in holding
