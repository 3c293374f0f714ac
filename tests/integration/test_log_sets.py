"""Sets of logs on real bookies: keys in order, members that come, go and die, and growth.

L11: a key is in one log, a group uses its records in order, also while the set grows. That a set owns its logs and
keeps them alike: test_sets_and_their_logs.py; members that stand still: test_stuck_consumers.py.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import pytest

from bookledger.errors import (
    LedgerError,
    LogFenced,
    LogHeld,
    MetadataUnavailable,
    MetadataWentBack,
    NoSuchLogSet,
    NotFound,
)
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient
from ledgers.logs.log_calls import LogCalls
from ledgers.logs.sets.log_set import LogSet
from ledgers.logs.sets.set_consumption import AssignedLog, SetConsumption, SetRecord
from ledgers.logs.sets.set_writer import log_of
from metadata import keys
from metadata.keys import NAME_CHARACTERS_MAX
from metadata.records.logs.log_record import LogRecord, SetMember
from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore, VersionedLogSet
from metadata.store import list_all
from metadata.version import Version
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster
from tests.support.present import there

KEYS = [b"customer-%d" % n for n in range(12)]


async def fill(log_set: LogSet, first: int, count: int) -> None:
    """So many records of each key, numbered from this one on."""
    async with await log_set.writer() as writer:
        for n in range(first, first + count):
            await asyncio.gather(*(writer.append(b"%d" % n, key=key) for key in KEYS))


class Seen:
    """What members of a group have used, by key and in order, whoever did."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, list[int]] = defaultdict(list)
        self.count = 0
        self.logs: dict[str, set[int]] = defaultdict(set)

    async def use(self, records: AsyncGenerator[SetRecord, None], member: str) -> None:
        async with aclosing(records) as records:
            async for log, record in records:
                assert record.key is not None
                self.by_key[record.key].append(int(record.payload))
                self.logs[member].add(log)
                self.count += 1
                await asyncio.sleep(0)

    def each_in_order(self, total: int) -> bool:
        """Each key's records in order: at least once, and nothing is skipped."""
        for numbers in self.by_key.values():
            highest = -1
            for number in numbers:
                assert number <= highest + 1, numbers
                highest = max(highest, number)
        return len(self.by_key) == len(KEYS) and all(max(one) == total - 1 for one in self.by_key.values())


async def _is(what: bool) -> bool:
    return what


def test_keys_are_spread_by_crc_32() -> None:
    """So that programs in other languages can find the log of a key."""
    assert [log_of(key, 16) for key in (b"", b"a", b"123456789")] == [0, 0xE8B7BE43 % 16, 0xCBF43926 % 16]


async def test_a_set_is_created_once_and_opened_with_the_logs_that_it_has(client: LedgerClient) -> None:
    with pytest.raises(NoSuchLogSet, match="no set of logs 'orders'"):
        await client.log_set("orders")
    made, again = await asyncio.gather(client.log_set("orders", 4), client.log_set("orders", 4))
    assert made.record == again.record == (await client.log_set("orders")).record
    assert (await client.log_set("orders", 8)).record == made.record, "the number is that of a new set"
    assert [name async for name, _ in client.list_logs()] == [f"orders.{n}" for n in range(4)]


async def test_L11_records_of_a_key_are_in_one_log_in_order_and_one_program_writes_at_a_time(
    client: LedgerClient,
) -> None:
    log_set = await client.log_set("orders", 3)
    old = await log_set.writer()
    place = await old.append(b"0", key=KEYS[0])
    assert place == (log_of(KEYS[0], 3), 0)
    assert await old.of(KEYS[0]).append(b"1", key=KEYS[0]) == 1
    async with await log_set.writer() as new:
        with pytest.raises(LogFenced):
            await old.append(b"late", key=KEYS[0])
        assert await new.append(b"2", key=KEYS[0]) == (place.log, 2)
    log = await log_set.log(place.log)
    assert [(record.key, record.payload) async for record in log.read()] == [
        (KEYS[0], b"%d" % n) for n in range(3)
    ]


async def test_members_share_the_logs_evenly_and_one_that_comes_or_goes_moves_only_its_share(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log_set = await client.log_set("orders", 6)
    await fill(log_set, 0, 3)
    seen = Seen()
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        one = asyncio.create_task(
            seen.use(log_set.consume("billing", member="one", timeout=3, commit_seconds=0), "one")
        )
        await until_true(lambda: _is(seen.count == 3 * len(KEYS)))
        assert len(seen.logs["one"]) == len({log_of(key, 6) for key in KEYS})
        seen.logs.clear()
        theirs = await other.log_set("orders")
        two = asyncio.create_task(
            seen.use(theirs.consume("billing", member="two", timeout=3, commit_seconds=0), "two")
        )
        await asyncio.sleep(1.0)
        await fill(log_set, 3, 3)
        await asyncio.gather(one, two)
        assert seen.each_in_order(6)
        assert not seen.logs["one"] & seen.logs["two"]
        assert seen.logs["one"] and seen.logs["two"]


async def test_L11_what_a_member_had_is_used_by_another_one_after_it_left(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log_set = await client.log_set("orders", 4)
    await fill(log_set, 0, 5)
    seen = Seen()
    for turn in range(5):  # each uses a part of it, and leaves in the middle of a batch
        async with LedgerClient(cluster.uri, config=QUICK) as own:
            records = (await own.log_set("orders")).consume("billing", member=f"m{turn}", timeout=2)
            async with aclosing(records) as records:
                used = 0
                async for _, record in records:
                    assert record.key is not None
                    seen.by_key[record.key].append(int(record.payload))
                    used += 1
                    if used == 9:
                        break
    await seen.use(log_set.consume("billing", timeout=2), "last")
    assert seen.each_in_order(5)


async def test_L11_a_set_grows_by_an_order_and_a_moved_key_is_used_in_order(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 2)
    await fill(log_set, 0, 10)
    old = await log_set.writer()
    await log_set.grow(4)
    await log_set.grow(4)  # is done already
    with pytest.raises(LogFenced):
        await old.append(b"10", key=KEYS[0])
    await fill(log_set, 10, 10)
    assert (log_set.record.logs, len(log_set.record.growths)) == (4, 1)
    moved = [key for key in KEYS if log_of(key, 2) != log_of(key, 4)]
    assert moved and len(moved) < len(KEYS)
    seen = Seen()
    await seen.use(log_set.consume("billing", timeout=4), "one")
    assert seen.each_in_order(20)
    assert seen.count == 20 * len(KEYS)


async def test_L11_a_group_that_began_at_the_end_misses_nothing_of_the_logs_that_come_later(
    client: LedgerClient,
) -> None:
    log_set = await client.log_set("orders", 2)
    await fill(log_set, 0, 2)
    seen = Seen()
    await seen.use(log_set.consume("billing", start="end", timeout=1), "one")
    assert seen.count == 0
    await log_set.grow(4)
    await fill(log_set, 2, 2)
    await seen.use(log_set.consume("billing", start="end", timeout=2), "one")
    assert dict(seen.by_key) == {key: [2, 3] for key in KEYS}


async def test_a_member_whose_log_has_failed_can_be_closed_at_any_moment(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_set = await client.log_set("orders", 1)
    followed, asked_again = asyncio.Event(), asyncio.Event()

    async def fails(self: SetConsumption, share: AssignedLog, record: LogSetRecord) -> None:
        followed.set()
        raise MetadataUnavailable("away")

    async def hangs_once_a_log_has_failed() -> LogSetRecord:
        if followed.is_set():
            asked_again.set()
            await asyncio.Event().wait()
        return log_set.record

    monkeypatch.setattr(SetConsumption, "_follow", fails)
    monkeypatch.setattr(log_set, "refresh", hangs_once_a_log_has_failed)
    using = asyncio.create_task(Seen().use(log_set.consume("billing"), "one"))
    await asked_again.wait()
    using.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([using])
    assert using.cancelled()


async def test_L11_a_growth_that_was_interrupted_is_completed_by_the_next_writer(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_set = await client.log_set("orders", 2)
    await fill(log_set, 0, 2)

    async def interrupted(*_: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(LogSet, "_settle_logs", interrupted)
        await log_set.grow(4)
    assert (await log_set.refresh()).growing_to == 4
    await fill(await client.log_set("orders"), 2, 2)
    assert (await log_set.refresh()).logs == 4
    seen = Seen()
    await seen.use(log_set.consume("billing", timeout=4), "one")
    assert seen.each_in_order(4)


KEYS_OF_SETS = (
    *(keys.LOG_SETS, keys.LOG_SHARES, keys.CURSORS),
    *(keys.LOGS, keys.LOG_NAMES, keys.LOG_PAGES, keys.LOG_TIMES, keys.LOG_PRODUCERS),
)


async def left(client: LedgerClient) -> list[str]:
    """What the metadata has of sets and of logs, and the ledgers that are not deleted."""
    cluster = await client._connected()
    found = [item.key for prefix in KEYS_OF_SETS async for item in list_all(cluster.store, prefix)]
    return [*found, *[str(one.record.ledger_id) async for one in cluster.ledgers.list()]]


async def test_a_deleted_set_leaves_nothing_and_its_writer_and_consumers_hear_of_it(
    client: LedgerClient,
) -> None:
    log_set = await client.log_set("orders", 2)
    await fill(log_set, 0, 2)
    await log_set.grow(4)
    await fill(log_set, 2, 2)
    writer = await log_set.writer()
    seen = Seen()
    using = asyncio.create_task(seen.use(log_set.consume("billing"), "one"))
    await until_true(lambda: _is(seen.count == 4 * len(KEYS)))
    await client.delete_log_set("orders")
    assert await left(client) == []
    with pytest.raises(LedgerError):
        await writer.append(b"late", key=KEYS[0])
    with pytest.raises(NotFound):
        await using
    with pytest.raises(NoSuchLogSet):
        await client.delete_log_set("orders")


async def test_a_set_under_a_legal_hold_is_left_as_it_is(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 3)
    await fill(log_set, 0, 2)
    before = await left(client)
    await log_set.set_legal_hold(True)
    with pytest.raises(LogHeld, match=r"orders\.0"):
        await client.delete_log_set("orders")
    assert await left(client) == before
    await fill(log_set, 2, 1)
    await log_set.set_legal_hold(False)
    await client.delete_log_set("orders")
    assert await left(client) == []


@pytest.mark.parametrize(
    "interrupted", ["ledgers.logs.log_calls.delete_all", "ledgers.logs.sets.deletion.log_shares.forget_all"]
)
async def test_a_deletion_that_was_interrupted_is_done_again(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    async def interrupts(*_: object) -> None:
        raise InterruptedError

    log_set = await client.log_set("orders", 3)
    await fill(log_set, 0, 2)
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(interrupted, interrupts)
        await client.delete_log_set("orders")
    with pytest.raises(NoSuchLogSet):
        await client.log_set("orders")
    with pytest.raises(LedgerError, match="only partly deleted: delete it again"):
        await client.log_set("orders", 3)
    assert [one async for one in client.list_log_sets()] == []
    await client.delete_log_set("orders")
    assert await left(client) == []


def test_sets_in_ordinary_code(uri: str) -> None:
    with BlockingClient(uri) as client:
        log_set = client.log_set("orders", 2)
        with log_set.writer() as writer:
            places = [writer.append(b"%d" % n, key=KEYS[n]) for n in range(6)]
            writer.flush()
        assert {place.log for place in places} == {0, 1}
        used = [(log, one.position, one.payload) for log, one in log_set.consume("billing", timeout=3)]
        assert sorted(used) == sorted((*place, b"%d" % n) for n, place in enumerate(places))
        assert list(log_set.consume("billing", timeout=1)) == []
        log_set.grow(4)
        assert (log_set.refresh().logs, log_set.log(3).end()) == (4, 0)
        assert list(client.list_log_sets()) == [("orders", log_set.record)]
        client.delete_log_set("orders")
        assert [*client.list_log_sets(), *client.list_logs()] == []


async def test_a_set_that_is_deleted_after_its_growth_was_interrupted_leaves_nothing(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_set = await client.log_set("orders", 2)
    settle = LogCalls.settle

    async def interrupted(self: LogCalls, model: LogRecord, member: SetMember, password: bytes) -> None:
        if member.number == 3:
            raise InterruptedError
        await settle(self, model, member, password)

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(LogCalls, "settle", interrupted)
        await log_set.grow(4)
    assert await client.log("orders.2")
    await client.delete_log_set("orders")
    assert await left(client) == []


async def test_a_set_does_not_begin_to_grow_to_logs_that_could_have_no_name(client: LedgerClient) -> None:
    log_set = await client.log_set("s" * (NAME_CHARACTERS_MAX - 2), 5)
    with pytest.raises(ValueError, match="name"):
        await log_set.grow(20)
    assert not (await log_set.refresh()).growing_to


async def test_a_member_whose_set_is_in_an_earlier_state_than_it_has_seen_is_told_so(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_set, read = await client.log_set("orders", 2), LogSetStore.read
    await fill(log_set, 0, 1)

    async def older(self: LogSetStore, name: str) -> VersionedLogSet:
        return replace(there(await read(self, name)), version=Version(1))

    async with aclosing(log_set.consume("billing")) as records:
        await anext(records)
        monkeypatch.setattr(LogSetStore, "read", older)
        with pytest.raises(MetadataWentBack, match="has version 1 of the record of set 'orders'"):
            async with asyncio.timeout(30):
                async for _ in records:
                    pass
