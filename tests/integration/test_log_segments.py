"""Segments of a log on real bookies: when they end, how the next one is made, what becomes of those that are lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ledgers import LogExists, LogFenced, NoSuchLedger, NoSuchLog
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from ledgers.logs.segment_pages import turn_page
from ledgers.logs.writing.log_writer import LogWriter
from ledgers.recovering.ledger_deletion import delete
from metadata.backup import hold
from metadata.errors import VersionConflict
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.segment import Segment
from metadata.records.logs.segment_deletion import UnneededSegments
from metadata.version import Version
from tests.support.aio import until_true
from tests.support.present import there


async def payloads(log: Log) -> list[bytes]:
    return [record.payload async for record in log.read()]


async def segments(log: Log) -> list[Segment]:
    return [segment async for segment in log.segments()]


async def has_segments(log: Log, count: int) -> bool:
    return len(await segments(log)) >= count


async def test_a_segment_ends_when_it_has_so_many_bytes(client: LedgerClient) -> None:
    log = await client.create_log("orders", roll_bytes=10_000)
    async with await log.writer() as writer:
        for n in range(100):
            await writer.append(b"%1000d" % n)
    *ended, _last = await segments(log)
    assert len(ended) >= 5
    assert all(5_000 <= one.length_bytes <= 20_000 for one in ended), ended
    assert await payloads(log) == [b"%1000d" % n for n in range(100)]


async def test_a_segment_of_many_records_ends_at_the_one_that_the_settings_say(client: LedgerClient) -> None:
    """It is known before it is reached, and the next ledger is made before."""

    log = await client.create_log("orders", roll_records=100)
    async with await log.writer() as writer:
        for n in range(0, 400, 40):
            await writer.append_batch([b"%d" % k for k in range(n, n + 40)])
    assert [s.first_position for s in await segments(log)] == [0, 100, 200, 300]
    assert await payloads(log) == [b"%d" % n for n in range(400)]


async def test_a_segment_ends_when_it_is_so_old_and_an_empty_one_does_not(client: LedgerClient) -> None:
    log = await client.create_log("orders", roll_seconds=0.05)
    async with await log.writer() as writer:
        await writer.append(b"0")
        await until_true(lambda: has_segments(log, 2))
        await writer.append(b"1")
        await until_true(lambda: has_segments(log, 3))
    assert await payloads(log) == [b"0", b"1"]
    assert [s.first_position for s in await segments(log)] == [0, 1]


async def test_no_append_waits_for_the_ledger_of_the_next_segment(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await client.create_log("orders", roll_records=100)
    writer = await log.writer()
    create, asked, may_create = writer._ledgers.calls.create_ledger, asyncio.Event(), asyncio.Event()

    async def held_back(**arguments: object) -> object:
        asked.set()
        await may_create.wait()
        return await create(**arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(writer._ledgers.calls, "create_ledger", held_back)
    for n in range(100):
        assert await writer.append(b"%d" % n) == n
    assert asked.is_set(), "it is made while the last one takes records"
    may_create.set()
    assert await writer.append(b"100") == 100
    await writer.close()
    assert [s.first_position for s in await segments(log)] == [0, 100]


async def lost(client: LedgerClient, segment: Segment) -> None:
    """Deletes it behind its log's back."""
    await delete(await client._connected(), segment.ledger_id, b"", as_it_is=True)


async def abandoned(log: Log, *payloads: bytes) -> LogWriter:
    """A writer that appended these and died."""
    writer = await log.writer()
    for payload in payloads:
        await writer.append(payload)
    await writer.abandon()
    return writer


async def test_a_log_whose_last_segment_is_lost_says_so_and_what_is_left_can_be_read(
    client: LedgerClient, log: Log
) -> None:
    async with await log.writer() as writer:
        await writer.append_batch([b"a", b"b"])
    await abandoned(log, b"c")
    last = (await log.refresh()).last
    assert last is not None
    await lost(client, last)
    said = rf"no ledger {last.ledger_id}: it held log 'orders' from position 2 on.*--last 1.*start a new one"
    for attempt in (log.writer, log.end):
        with pytest.raises(NoSuchLedger, match=said):
            await attempt()
    assert (await log.refresh()).epoch == 2, "nothing was changed"
    assert [r.payload async for r in log.read(0, 2)] == [b"a", b"b"]
    await client.rename_log("orders", "lost")
    assert await (await client.create_log("orders")).end() == 0
    await client.delete_log("lost")


async def test_a_log_in_whose_midst_a_segment_is_lost_says_where_to_read_on(
    client: LedgerClient, log: Log
) -> None:
    for payload in (b"a", b"b", b"c"):
        async with await log.writer() as writer:
            await writer.append(payload)
    await lost(client, (await segments(log))[1])
    with pytest.raises(NoSuchLedger, match=r"from position 1 to 1.*read the log from position 2 on"):
        await payloads(log)
    assert [r.payload async for r in log.read(2)] == [b"c"]
    async with await log.writer() as writer:
        assert await writer.append(b"d") == 3


async def test_the_ledger_that_a_dead_writer_did_not_add_is_deleted_in_the_next_audit(
    client: LedgerClient, log: Log
) -> None:
    writer = await log.writer()
    left = await writer._ledgers.create(writer.record, 0)
    await writer.append(b"a")
    await writer.abandon()
    async with await log.writer() as later:
        assert await later.append(b"b") == 1
    connected = await client._connected()
    unneeded = UnneededSegments(connected.store)
    deleted = [
        found.record.ledger_id async for found in connected.ledgers.list() if await unneeded.delete(found)
    ]
    assert deleted == [left.ledger_id]
    assert await payloads(log) == [b"a", b"b"]


async def test_a_log_has_one_name_at_any_time_of_its_renaming(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever step it is interrupted before."""

    for step in ("give_name", "change", "take_name"):
        await client.create_log(f"old-{step}")
        with monkeypatch.context() as patch, pytest.raises(ConnectionError):
            interrupted_before(patch, step)
            await client.rename_log(f"old-{step}", f"new-{step}")
    names = [name async for name, _ in client.list_logs()]
    assert names == ["new-take_name", "old-change", "old-give_name"]
    for name in ("old-take_name", "new-change", "new-give_name"):
        with pytest.raises(NoSuchLog):
            await client.log(name)
        await client.create_log(name)


def interrupted_before(patch: pytest.MonkeyPatch, step: str) -> None:
    """The `change` that counts is the second."""
    calls, real = [], getattr(LogStore, step)

    async def broken(*arguments: object) -> object:
        calls.append(arguments)
        if step == "change" and len(calls) == 1:
            return await real(*arguments)
        raise ConnectionError

    patch.setattr(LogStore, step, broken)


async def test_a_name_that_a_log_is_to_get_is_that_of_whoever_is_faster(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = await client.create_log("a")
    give_name = LogStore.give_name

    async def overtaken(self: LogStore, name: str, identity: bytes) -> bool:
        has_way = await give_name(self, name, identity)
        monkeypatch.undo()
        if identity == renamed.record.identity:
            await client.create_log("b")
        return has_way

    monkeypatch.setattr(LogStore, "give_name", overtaken)
    with pytest.raises(LogExists):
        await client.rename_log("a", "b")
    assert [name async for name, _ in client.list_logs()] == ["a", "b"]
    assert (await client.log("a")).record.identity == renamed.record.identity
    await client.rename_log("a", "c")
    await client.rename_log("c", "a")
    assert (await client.log("a")).record.identity == renamed.record.identity


async def test_a_segment_that_was_added_all_the_same_is_not_deleted_by_the_writer_that_was_overtaken(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the change that adds it is lost, and a rival raises the epoch before it is settled."""
    log, rival = await client.log("orders", create=True), await client.log("orders")
    change, changes = LogStore.change, []

    async def overtaken(self: LogStore, record: LogRecord, version: Version) -> VersionedLog:
        changes.append(record)
        done = await change(self, record, version)
        if len(changes) == 2:
            monkeypatch.undo()
            await rival.refresh()
            await rival._chain.change(lambda record: record.taken_over("rival"))
            raise VersionConflict("the record", version)
        return done

    monkeypatch.setattr(LogStore, "change", overtaken)
    with pytest.raises(LogFenced, match="rival, epoch 2"):
        await log.writer()
    last = (await log.refresh()).last
    assert last is not None and last.epoch == 1, "it is in the chain"
    assert not await is_gone(client, last.ledger_id)
    async with await log.writer() as writer:
        assert await writer.append(b"on") == 0


async def is_gone(client: LedgerClient, ledger_id: int) -> bool:
    return await (await client._connected()).ledgers.read(ledger_id) is None


async def test_segments_of_a_page_that_was_turned_twice_are_listed_once(log: Log) -> None:
    """Its first writer ended before the record let go of it; a truncation came, and then a page of other segments."""
    for payload in (b"a", b"b", b"c", b"d"):
        async with await log.writer() as writer:
            await writer.append(payload)
    chain = (await log.refresh()).segments
    await log._chain.logs.put_page(log.record.identity, chain[:2])
    await turn_page(log._chain, chain[:3])
    assert await segments(log) == list(chain)
    assert await payloads(log) == [b"a", b"b", b"c", b"d"]


async def test_a_ledger_that_a_writer_made_ahead_is_kept_if_older_metadata_gives_it_to_the_log(
    client: LedgerClient,
) -> None:
    """W8: whoever accepts older metadata adds every ledger of the log that bookies have entries of."""
    log = await client.create_log("orders")
    writer = await log.writer()
    ledgers = writer._ledgers
    logs, made_ahead = LogStore(ledgers.cluster.store), await ledgers.create(log.record, 5)

    async def is_kept() -> bool:
        await ledgers.discard(made_ahead)
        return await ledgers.cluster.ledgers.read(made_ahead.ledger_id) is not None

    await hold.begin(logs.store, backup_ms=1, now_ms=1)
    assert await is_kept(), "the log may still get it"
    await hold.accept(logs.store)
    found = there(await logs.read(log.record.identity))
    (last,) = found.record.segments
    given = replace(found.record, segments=(replace(last, ledger_id=made_ahead.ledger_id),))
    changed = await logs.change(given, found.version)
    assert await is_kept()
    await logs.change(found.record, changed.version)
    assert not await is_kept()
    await writer.abandon()
