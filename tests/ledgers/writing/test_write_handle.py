"""The writer's shell: what it gives the lanes, how long it waits, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bookie.wire import FRAME_BYTES_MAX
from ledgers.config import MIB, ClientConfig
from ledgers.entry import ENTRY_OVERHEAD_BYTES
from ledgers.errors import (
    AppendTimeout,
    ClientForked,
    EntryTooLarge,
    LedgerClosed,
    LedgerError,
    LedgerFenced,
    NotEnoughBookies,
)
from ledgers.writing import slow_wait_warning
from ledgers.writing.checked_batch import CheckedBatch
from ledgers.writing.write_handle import WriteHandle
from metadata.fork_safety.fork_guard import _Forks
from tests.ledgers.reading.reading import DIGEST, LEDGER_ID
from tests.ledgers.writing.writing import turns, writer_of
from tests.support.aio import run, until_true
from tests.support.ledgers import change

HASTY = ClientConfig(append_seconds_max=0.1, append_quorum_seconds_max=0.1, retry_replacement_seconds=0.01)


async def test_frames_carry_the_last_add_confirmed_from_the_first_confirmed_entry_on() -> None:
    writer, bookies, _ = await writer_of()
    appended = await writer.append_async(b"four")
    await turns()
    assert [lane.last_add_confirmed() for lane in bookies.lanes] == [None] * 3
    bookies.acknowledge(0, 1)
    assert await appended == 0
    assert [lane.last_add_confirmed() for lane in bookies.lanes] == [DIGEST.sign_lac(0, 4)] * 3
    await writer.abandon()


async def _one_by_one(writer: WriteHandle, payloads: list[bytes]) -> None:
    for payload in payloads:
        await writer.append_async(payload)


async def _without_waiting(writer: WriteHandle, payloads: list[bytes]) -> None:
    for payload in payloads:
        writer.append_nowait(payload)


async def _as_a_list(writer: WriteHandle, payloads: list[bytes]) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    writer.submit_batch(CheckedBatch(payloads, writer.entry_bytes_max), future)


async def _as_records_of_a_log(writer: WriteHandle, payloads: list[bytes]) -> None:
    writer.submit_each(payloads, sum(map(len, payloads)), ())


@pytest.mark.parametrize("append", [_one_by_one, _without_waiting, _as_a_list, _as_records_of_a_log])
async def test_what_fills_a_frame_is_sent_before_the_application_pauses(
    append: Callable[[WriteHandle, list[bytes]], Awaitable[None]],
) -> None:
    """Or the bookies would wait for the application, and then it for them."""
    writer, bookies, _ = await writer_of()
    filling = [b"x" * 100] * (FRAME_BYTES_MAX // (100 + ENTRY_OVERHEAD_BYTES) + 1)
    streams_sent: list[int] = []
    for times in (1, 2):
        writer._cluster.turn.send(lambda: streams_sent.append(len(bookies.lanes[0].sent)))
        await append(writer, filling)
        await append(writer, [b"y"])
        assert len(streams_sent) == times
        assert [sum(map(len, lane.sent)) for lane in bookies.lanes] == [times * len(filling) + times - 1] * 3
        await turns()
    await writer.abandon()


async def test_an_entry_that_cannot_be_signed_fails_its_future_also_when_it_is_sent_by_the_next_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, bookies, _ = await writer_of()
    monkeypatch.setattr(writer, "_digester", None)
    future = await writer.append_async(b"x" * writer.entry_bytes_max)
    with pytest.raises(LedgerError, match="the writer failed"):
        await writer.append_async(b"y")
    with pytest.raises(LedgerError, match="the writer failed"):
        await future
    assert writer.has_ended
    assert not any(lane.sent for lane in bookies.lanes)
    await writer.abandon()


async def test_the_lane_of_a_bookie_that_failed_is_closed_and_no_other() -> None:
    """Or what is queued on it would be kept, and sent, for as long as the writer lives."""
    writer, bookies, _ = await writer_of()
    bookies.fail(1)
    assert [lane.is_closed for lane in bookies.lanes] == [False, True, False]
    await writer.abandon()


def test_an_idle_writer_that_finds_no_quorum_of_bookies_ends_though_nothing_waits() -> None:
    async def scenario() -> None:
        writer, bookies, _ = await writer_of(HASTY)
        bookies.fail(0, 1)
        await until_true(lambda: writer.has_ended)
        with pytest.raises(NotEnoughBookies):
            await writer.flush()
        await writer.abandon()

    run(scenario(), timeout_seconds=10)


async def test_closing_waits_for_the_slowest_copy() -> None:
    """C1, W6"""
    writer, bookies, _ = await writer_of()
    appended = await writer.append_async(b"x")
    await turns()
    bookies.acknowledge(0, 1)
    await appended
    closing = asyncio.create_task(writer.close())
    await turns()
    assert not writer.has_ended and not any(lane.is_closed for lane in bookies.lanes)
    bookies.acknowledge(2)
    await closing
    assert writer.record.is_closed and not writer.record.fragments[0].lacking
    assert all(lane.is_closed for lane in bookies.lanes)


async def test_a_fenced_writer_with_an_unconfirmed_entry_has_not_closed_its_ledger_though_it_is_closed() -> (
    None
):
    """The recovery closed it without that entry, and the application is to hear of it."""
    writer, bookies, ledgers = await writer_of()
    lost = await writer.append_async(b"lost")
    await turns()
    await change(ledgers, LEDGER_ID, lambda record: record.closed(-1, 0))
    bookies.fence()
    with pytest.raises(LedgerFenced):
        await writer.close()
    with pytest.raises(LedgerFenced):
        await lost


async def test_an_idle_writer_that_meets_the_fence_of_a_recovery_that_closed_there_has_closed_too() -> None:
    writer, bookies, ledgers = await writer_of()
    await change(ledgers, LEDGER_ID, lambda record: record.closed(-1, 0))
    bookies.fence()
    await writer.close()
    assert writer.record.is_closed


def test_a_close_that_takes_long_says_how_many_entries_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slow_wait_warning, "WARN_AFTER_SECONDS", 0)

    async def scenario() -> None:
        writer, bookies, _ = await writer_of()
        await writer.append_async(b"confirmed")
        await turns()
        bookies.acknowledge(0, 1, 2)
        for _ in range(4):
            await writer.append_async(b"x")
        closing = asyncio.create_task(writer.close())
        await until_true(lambda: bool(caplog.messages))
        bookies.acknowledge(0, 1, 2)
        await closing

    run(scenario())
    assert f"closing ledger {LEDGER_ID} waits for 4 entries to be confirmed" in caplog.messages[0]


async def test_a_flush_with_nothing_to_wait_for_fails_in_a_forked_child_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, *_ = await writer_of()
    await writer.flush()
    with monkeypatch.context() as in_child:
        in_child.setattr(_Forks, "count", _Forks.count + 1)
        with pytest.raises(ClientForked):
            await writer.flush()
    await writer.abandon()


async def test_with_deferred_sync_a_writer_that_holds_more_than_half_of_its_bound_forces_by_itself() -> None:
    """At the bound it would be too late: who waits for room there appends nothing that could bring it about."""
    config = ClientConfig(pending_bytes_max=MIB)
    writer, bookies, _ = await writer_of(config, deferred_sync=True)
    await writer.append_async(bytes(MIB // 2 - ENTRY_OVERHEAD_BYTES))
    await turns()
    assert writer.pending_bytes == MIB // 2
    assert [lane.forces for lane in bookies.lanes] == [0, 0, 0]
    await writer.append_async(b"")
    await turns()
    assert [lane.forces for lane in bookies.lanes] == [1, 1, 1]
    await writer.abandon()


@pytest.mark.parametrize("asks", ["append", "force"])
async def test_the_time_for_an_answer_begins_when_somebody_waits_for_it_also_with_deferred_sync(
    asks: str,
) -> None:
    """What was accepted before, and not forced, waits for nobody."""
    config = ClientConfig(append_seconds_max=0.3, append_quorum_seconds_max=0.3)
    writer, bookies, _ = await writer_of(config, deferred_sync=True)
    accepted = await writer.append_async(b"accepted")
    await turns()
    for lane in bookies.lanes:
        lane.listener.written(0)
    assert await accepted == 0
    await asyncio.sleep(2 * config.append_quorum_seconds_max)  # the application does something else
    asked = asyncio.ensure_future(writer.force() if asks == "force" else writer.append(b"next"))
    await turns()
    for lane in bookies.lanes:
        through = lane.sent[-1].last_entry
        (lane.listener.acked if asks == "force" else lane.listener.written)(through)
    assert await asked in (None, 1)
    await writer.abandon()


async def test_an_append_that_no_quorum_answers_is_given_up_when_its_time_is_over() -> None:
    writer, bookies, _ = await writer_of(HASTY)
    appended = await writer.append_async(b"unanswered")
    await turns()
    bookies.acknowledge(0)
    with pytest.raises(AppendTimeout):
        await appended
    await writer.abandon()


async def test_a_cancelled_append_is_written_all_the_same_and_the_next_one_keeps_its_own_entry() -> None:
    writer, bookies, _ = await writer_of()
    given_up, waited_for = await writer.append_async(b"one"), await writer.append_async(b"two")
    given_up.cancel()
    await turns()
    assert [bytes(payload) for _, payload, _ in bookies.lanes[0].sent[0].rows()] == [b"one", b"two"]
    bookies.acknowledge(0, 1)
    assert await waited_for == 1
    await writer.abandon()


async def test_an_entry_that_follows_another_in_one_turn_is_refused_and_waits_for_room_as_the_first_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, bookies, _ = await writer_of(ClientConfig(pending_bytes_max=MIB))
    taken = [await writer.append_async(bytes(MIB // 2)) for _ in range(2)]
    waiting = asyncio.create_task(writer.append_async(b"waits"))
    await turns()
    assert not waiting.done()
    bookies.acknowledge(0, 1)
    taken.append(await waiting)
    with pytest.raises(EntryTooLarge):
        await writer.append_async(bytes(writer.entry_bytes_max + 1))
    with pytest.raises(TypeError):
        await writer.append_async("no bytes")  # type: ignore[arg-type]
    assert writer.append_nowait(b"in between") == 3
    taken.append(await writer.append_async(b"follows"))
    with monkeypatch.context() as in_child:
        in_child.setattr(_Forks, "count", _Forks.count + 1)
        with pytest.raises(ClientForked):
            await writer.append_async(b"of a child")
    await turns()
    bookies.acknowledge(0, 1)
    assert [await future for future in taken] == [0, 1, 2, 4]
    await writer.abandon()


async def test_no_entry_is_taken_in_behind_a_close_of_the_same_turn() -> None:
    writer, bookies, _ = await writer_of()

    async def append_in_every_way() -> None:
        with pytest.raises(LedgerClosed):
            writer.append_nowait(b"late")
        with pytest.raises(LedgerClosed):
            await writer.append_batch([b"late"])
        with pytest.raises(LedgerClosed):
            await writer.append_async(b"late")

    closing = asyncio.create_task(writer.close())
    late = asyncio.create_task(append_in_every_way())
    appended = await writer.append_async(b"before both")
    await late
    bookies.acknowledge(0, 1, 2)
    await closing
    assert await appended == writer.last_add_confirmed == 0
