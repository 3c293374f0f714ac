"""L9: the auditor gives up what logs ask it to: no more, not under a hold, and over conflicts and other auditors.

What is old enough or too much is decided in metadata/test_retention.py, how silences are counted in
test_silence_counts.py.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import count

import pytest

from bookie.upkeep.logs.auditor_log_metrics import of_logs
from bookie.upkeep.logs.retention_rounds import (
    LOGS_PER_PAGE,
    LOOK_SECONDS_MAX,
    ROUND_SECONDS,
    RetentionRounds,
)
from metadata import keys
from metadata.backup import hold
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import directory_generations
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.directory_generations import Life
from metadata.records.ledger_record import SEGMENT, BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.logs import silences
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.retention import Retention
from metadata.records.logs.segment import Segment
from metadata.records.registration import Registration
from metadata.version import NO_VERSION, Version
from tests.support.present import there

SECOND = 1_000_000
BOOKIE = BookieRef("b1", "i1")


class One:
    """A log of four segments of ten records, one a second, in ledgers 1 to 4, of which the last is open; an auditor; a
    clock of everybody."""

    def __init__(self) -> None:
        self.store = MemoryStore(MemoryData())
        self.logs = LogStore(self.store)
        self.ledgers = LedgerStore(self.store)
        self.cursors = CursorStore(self.store, bytes(16))
        self.passed = 0.0
        self.rounds = self.auditor()

    def auditor(self) -> RetentionRounds:
        return RetentionRounds(self.store, lambda: self.passed)

    async def make(self, retention: Retention, identity: bytes = bytes(16)) -> LogRecord:
        segments = [
            Segment(n, 10 * (n - 1), 1, (n - 1) * SECOND, 10 * n if n < 4 else None, n * SECOND, 100)
            for n in range(1, 5)
        ]
        record = LogRecord(identity, identity.hex(), epoch=1, segments=tuple(segments), retention=retention)
        await self.logs.create(record)
        await self.logs.give_name(record.name, identity)
        return record

    async def make_ledgers(self) -> None:
        for n in range(1, 5):
            custom = {SEGMENT: SegmentOf(bytes(16), 10 * (n - 1), 1).encoded()}
            shape = Shape(1, 1, 1), (Fragment(0, (BOOKIE,)),)
            await self.ledgers.create(LedgerRecord(n, *shape, custom_metadata=custom))

    async def at(self, seconds: float, *, auditor: RetentionRounds | None = None) -> LogRecord:
        """A whole round, when the bookie's clock says that."""
        registration = Registration(BOOKIE, "b1:1")
        if await self.store.get(registration.key) is None:
            await self.store.create(registration.key, registration.encode())
        life = Life(1, at_ms=round(seconds * 1000))
        await directory_generations.write(self.store, "b1", "i1", life)
        self.passed += ROUND_SECONDS
        await (auditor or self.rounds).look()
        found = there(await self.logs.read(bytes(16)))
        return found.record

    async def left(self) -> list[int]:
        return [n for n in range(1, 5) if await self.ledgers.read(n) is not None]


@pytest.fixture
async def one() -> One:
    made = One()
    await made.make_ledgers()
    return made


async def test_L9_what_is_old_enough_goes_with_its_ledgers_and_the_segment_in_use_never(one: One) -> None:
    await one.make(Retention(age_seconds=10))
    assert (await one.at(10.9)).first_position == 0
    record = await one.at(12)
    assert (record.first_position, len(record.segments), await one.left()) == (20, 2, [3, 4])
    record = await one.at(10**6)
    assert (record.first_position, await one.left()) == (30, [4])
    assert (one.rounds.totals.records, one.rounds.totals.bytes, one.rounds.totals.ledgers) == (30, 300, 3)


async def test_L9_what_a_cursor_has_still_to_read_stays_until_it_has_moved(one: One) -> None:
    await one.make(Retention(age_seconds=10, cursors=("billing",)))
    assert (await one.at(10**6)).first_position == 0, "it is not there yet"
    found = await one.cursors.create("billing", CursorRecord(15))
    assert (await one.at(10**6)).first_position == 10
    await one.cursors.change("billing", found.record.committed(30, 1), found.version)
    assert (await one.at(10**6)).first_position == 30


async def test_L9_a_silent_cursor_counts_no_more_which_is_told_once_and_counts_again_when_it_moves(
    one: One, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await one.make(Retention(age_seconds=10, cursors=("billing",), cursor_silent_seconds=3 * ROUND_SECONDS))
    found = await one.cursors.create("billing", CursorRecord(15))
    for _ in range(3):
        assert (await one.at(12)).first_position == 10
    assert (await one.at(12)).first_position == 20
    for _ in range(2):
        assert (await one.at(10**6)).first_position == 30
        assert one.rounds.silent_cursors == (f"{bytes(16).hex()}/billing",), (
            "also where all is gone that it kept"
        )
    told = [line for line in caplog.messages if "retention ignores cursor" in line]
    assert len(told) == 1 and "'billing'" in told[0]
    assert "retention no longer ignores cursor" not in caplog.text
    await one.cursors.change("billing", found.record.committed(25, 1), found.version)
    await one.at(10**6)
    assert one.rounds.silent_cursors == ()
    assert "retention no longer ignores cursor" in caplog.text


async def test_a_later_auditor_goes_on_counting_a_silence(one: One) -> None:
    await one.make(Retention(age_seconds=10, cursors=("billing",), cursor_silent_seconds=3 * ROUND_SECONDS))
    await one.cursors.create("billing", CursorRecord(15))
    for _ in range(3):
        await one.at(12)
    later = one.auditor()
    assert (await one.at(12, auditor=later)).first_position == 10
    assert (await one.at(12, auditor=later)).first_position == 20


async def test_L9_nothing_goes_under_a_legal_hold_and_what_had_gone_before_it_is_deleted_after_it(
    one: One,
) -> None:
    record = await one.make(Retention(age_seconds=10))
    found = there(await one.logs.read(record.identity))
    await one.logs.change(found.record.truncated(10).held(True), found.version)
    assert (await one.at(10**6)).first_position == 10
    assert await one.left() == [1, 2, 3, 4]
    found = there(await one.logs.read(record.identity))
    await one.logs.change(found.record.held(False).retained(Retention(age_seconds=10**9)), found.version)
    assert (await one.at(10**6)).first_position == 10
    assert await one.left() == [2, 3, 4]


async def test_nothing_goes_while_restored_metadata_is_not_accepted(one: One) -> None:
    await one.make(Retention(age_seconds=10))
    await hold.begin(one.store, backup_ms=1, now_ms=2)
    assert (await one.at(10**6)).first_position == 0
    await hold.accept(one.store)
    assert (await one.at(10**6)).first_position == 30


async def test_a_change_of_the_settings_that_comes_first_stops_what_was_about_to_go(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await one.make(Retention(age_seconds=10))
    change = LogStore.change
    overtaken: list[LogRecord] = []

    async def faster(self: LogStore, wanted: LogRecord, version: Version) -> object:
        if not overtaken:
            overtaken.append(wanted)
            await change(self, record.retained(Retention()), version)
        return await change(self, wanted, version)

    monkeypatch.setattr(LogStore, "change", faster)
    assert (await one.at(10**6)).first_position == 0
    assert overtaken[0].first_position == 30


async def test_a_log_that_cannot_be_read_keeps_no_other_from_being_looked_at(one: One) -> None:
    await one.store.create(keys.log(bytes(15) + b"\x01"), b"no record of this program")
    await one.make(Retention(age_seconds=10, cursors=("billing",)), identity=b"\x01" * 16)
    await one.store.create(keys.cursor(b"\x01" * 16, "billing"), b"no cursor of this program")
    await one.make(Retention(age_seconds=10))
    assert (await one.at(10**6)).first_position == 30
    found = await one.logs.read(b"\x01" * 16)
    assert found is not None and found.record.first_position == 0


async def test_a_round_looks_at_some_logs_at_a_time_and_begins_again_after_a_while(one: One) -> None:
    record = await one.make(Retention(age_seconds=10))
    for n in range(LOGS_PER_PAGE):
        await one.logs.create(replace(record, identity=b"\x00%015d" % n, segments=()))
    slow = RetentionRounds(one.store, count(ROUND_SECONDS, LOOK_SECONDS_MAX).__next__)
    await one.at(0, auditor=slow)
    assert slow.totals.rounds == 0
    await slow.look()
    assert (slow.totals.rounds, len(slow.logs)) == (1, LOGS_PER_PAGE + 1)
    await one.at(0)
    assert (one.rounds.totals.rounds, len(one.rounds.logs)) == (1, LOGS_PER_PAGE + 1)
    await one.rounds.look()
    assert one.rounds.totals.rounds == 1, "the next one begins later"


async def test_a_round_sees_how_far_each_cursor_is_behind_by_what_bookies_say(one: One) -> None:
    async def ask_lag(record: LogRecord, position: int) -> tuple[int, float] | None:
        return None if position == 7 else (38 - position, 2.5)

    one.rounds.ask_lag = ask_lag
    await one.make(Retention())
    await one.cursors.create("behind", CursorRecord(15))
    await one.cursors.create("unknown", CursorRecord(7))
    await CursorStore(one.store, b"\x01" * 16).create("of-another-log", CursorRecord(1))
    await one.at(12)
    told = {m.name: [(s.labels.get("cursor"), s.value) for s in m.samples] for m in of_logs(one.rounds)}
    assert told["bookledger_log_ended_position"] == [(None, 30)]
    assert told["bookledger_log_cursor_position"] == [("behind", 15), ("unknown", 7)]
    assert told["bookledger_log_cursor_lag_records"] == [("behind", 23)]
    assert told["bookledger_log_cursor_lag_seconds"] == [("behind", 2.5)]


async def test_what_is_known_of_silences_goes_with_its_log() -> None:
    store = MemoryStore(MemoryData())
    await silences.write(store, bytes(16), {"billing": silences.Silence(1, 5)}, NO_VERSION)
    assert (await silences.read(store, bytes(16))).of("billing", 1) == 5
    await silences.forget(store, bytes(16))
    assert (await silences.read(store, bytes(16))).version == 0


async def test_a_ledger_that_is_changed_meanwhile_is_deleted_as_it_stands_then(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.make(Retention(age_seconds=10))
    delete = LedgerStore.delete

    async def overtaken(self: LedgerStore, found: VersionedRecord) -> None:
        monkeypatch.undo()
        await delete(self, replace(found, version=Version(found.version - 1)))

    monkeypatch.setattr(LedgerStore, "delete", overtaken)
    record = await one.at(10**6)
    assert (await one.left(), record.first_position, len(record.segments)) == ([4], 30, 1)
    assert one.rounds.totals.ledgers == 3
