"""What a group of consumers used of a set of logs, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledgers.logs.record_batch import Record
from ledgers.logs.sets.set_consumption import SetConsumption
from ledgers.logs.sets.set_writer import log_of
from metadata import keys
from metadata.records.coordination import cursor_record, log_shares
from metadata.records.logs import log_set_record
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_set_record import LogSetRecord

from .probes import LogProbe

if TYPE_CHECKING:
    from .site import LogSite

SET = "set"
GROUP = "group"


class SharedTruth:
    """Checks as it happens: rule L11. `used`: of each log, up to where the group has used it."""

    def __init__(self, site: LogSite, start: str) -> None:
        self._site = site
        self._start = start
        self._numbers: dict[bytes, int] = {}
        self._strangers: set[bytes] = set()
        self._logs_at_begin: int | None = None
        self._members: dict[str, SetConsumption] = {}
        self._confirmed: dict[tuple[int, int], bytes] = {}
        self._latest: dict[tuple[bytes, bytes], int] = defaultdict(lambda: -1)
        self.used: dict[int, int] = {}

    # --- what stands in the metadata ---------------------------------------------------------------------

    def put(self, key: str, value: bytes) -> None:
        """Something was written, of the set or not."""
        if key == keys.log_shares(SET, GROUP) and self._logs_at_begin is None:
            self._logs_at_begin = len(log_shares.decode(key, value).owners)
        elif key.startswith(keys.CURSORS):
            _, identity, name = key.split("/")
            number = self._numbers.get(bytes.fromhex(identity))
            if number is not None and name == GROUP:
                self._moved(number, cursor_record.decode(key, value).position)

    def made(self, log: LogRecord) -> None:
        """The record of a log was written."""
        of, _, number = log.name.partition(".")
        if of == SET and log.member is None:
            self._strangers.add(log.identity)
        elif of == SET and log.identity in self._strangers:
            raise self._broken(f"the set has taken log {log.name}, which is somebody else's")
        elif of == SET:
            self._numbers[log.identity] = int(number)

    def record(self) -> LogSetRecord:
        found = self._site.store.data.get(keys.log_set(SET), self._site.world.now)
        assert found is not None
        return log_set_record.decode(found.key, found.value)

    def _moved(self, log: int, position: int) -> None:
        if log in self.used:
            if position > self.used[log]:
                raise self._broken(f"log {log} is committed to {position}, and used to {self.used[log]}")
            return
        is_new = self._logs_at_begin is not None and log >= self._logs_at_begin
        if position and (self._start == "beginning" or is_new):
            raise self._broken(f"the group begins with log {log} at {position}")
        self.used[log] = position

    # --- members ------------------------------------------------------------------------------------------

    def has(self, member: str, consumption: SetConsumption) -> None:
        """A member begins to consume."""
        self._members[member] = consumption

    @property
    def members(self) -> tuple[str, ...]:
        """Those that consume."""
        return tuple(self._members)

    def has_no_more(self, member: str) -> None:
        """It is gone."""
        self._members.pop(member, None)

    def begins(self, member: str, log: int, record: Record) -> None:
        """A member was given a record."""
        for other, theirs in self._members.items():
            if other != member and _has(theirs, log):
                raise self._broken(f"{member} uses log {log}, which {other} has by its own clock")
        if record.position > self.used[log]:
            raise self._broken(
                f"{member} uses {record.position} of log {log}, of which all to {self.used[log]} was used"
            )
        before = self.record().before(log)
        if before is not None:
            self._site.world.reached(LogProbe.MOVED)
            if self.used.get(before[0], 0) < before[1]:
                raise self._broken(f"{member} uses log {log} before log {before[0]} was used to {before[1]}")
        if record.position < self.used[log]:
            self._site.world.reached(LogProbe.USED_AGAIN)

    def is_done(self, log: int, record: Record) -> None:
        """A member has used a record, and asks for the next one."""
        self.used[log] = max(self.used[log], record.position + 1)

    # --- what was written ---------------------------------------------------------------------------------

    def confirmed(self, log: int, position: int, payload: bytes) -> None:
        """A program was told that this record is in the set."""
        self._confirmed[log, position] = payload

    def all_read(self, log: int, now: LogSetRecord, records: Sequence[Record]) -> None:
        """All of one log, once everything was calm; logs come in the order of their numbers."""
        for one in records:
            assert one.key is not None
            logs = next(
                (len(ends) for ends in now.growths if log < len(ends) and one.position < ends[log]), now.logs
            )
            if log_of(one.key, logs) != log:
                raise self._broken(
                    f"{one.key!r} is at {one.position} of log {log} when there were {logs} logs"
                )
            writer, _, number = one.payload.partition(b".")
            if int(number) <= self._latest[one.key, writer]:
                raise self._broken(
                    f"{one.payload!r} is behind number {self._latest[one.key, writer]} of its key"
                )
            self._latest[one.key, writer] = int(number)
        stored = {one.position: one.payload for one in records}
        for (of, position), payload in self._confirmed.items():
            if of == log and stored.get(position) != payload:
                raise self._broken(f"{payload!r} was confirmed, and not in log {log} at {position}")

    def alike(self, now: LogSetRecord, logs: Sequence[LogRecord]) -> None:
        """All logs, once nothing is left to be settled, and of whoever the set is."""
        wanted = now.model.retention, now.model.legal_hold, now.model.identity
        for log in logs:
            has = log.retention, log.legal_hold, log.member and log.member.log_set
            if has != wanted:
                raise self._broken(f"log {log.name} has {has}, and the set {wanted}")
        self._site.world.reached(LogProbe.ORDERED)

    def is_all_used(self, ends: Sequence[int]) -> bool:
        return all(self.used.get(log, -1) >= end for log, end in enumerate(ends))

    def _broken(self, what: str) -> AssertionError:
        return self._site.truth._broken("L11", what)


def _has(consumption: SetConsumption, log: int) -> bool:
    """By the member's own clock; unlike `is_lost` this changes nothing."""
    share = consumption._shares.get(log)
    place = None if share is None or share.consumption is None else share.consumption._place
    return place is not None and not place.lost.is_set() and not place._held.why_lost
