"""Records that are appended in one turn of the loop, in whatever way: taken together, in the order of the calls."""

from __future__ import annotations

import asyncio

import pytest

from ledgers import LedgerError, LogClosed
from ledgers.aio import LedgerClient
from ledgers.entry import ENTRY_OVERHEAD_BYTES
from ledgers.logs.log import Log
from ledgers.logs.record_batch import HEAD_BYTES
from ledgers.writing.write_handle import WriteHandle
from tests.ledgers.writing.writing import turns


async def test_single_records_and_others_have_positions_in_the_order_of_the_calls(log: Log) -> None:
    async with await log.writer() as writer:
        singles = [await writer.append_async(b"%d" % n) for n in range(3)]
        assert writer.next_position == 3
        batch = asyncio.create_task(writer.append_batch([b"3", b"4"]))
        singles.append(await writer.append_async(b"before the batch"))
        await asyncio.sleep(0)
        assert writer.next_position == 6
        singles += await writer.append_async(b"6"), await writer.append_async(b"7", key=b"k")
        singles += await writer.append_async(b"8"), await writer.append_async(b"9", producer="p", sequence=1)
        singles.append(await writer.append_async(b"10"))
        assert writer.append_nowait(b"11") == 11
        singles.append(await writer.append_async(b"12"))
        await writer.confirmed(12)
        assert [future.result() for future in singles] == [0, 1, 2, 3, 6, 7, 8, 9, 10, 12]
        assert await batch == range(4, 6)
    found = [record.payload async for record in log.read()]
    assert found == [b"0", b"1", b"2", b"before the batch", b"3", b"4", *(b"%d" % n for n in range(6, 13))]


async def test_single_records_of_one_turn_are_one_step_of_the_ledgers_writer(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each would cost as much as a list."""
    submitted: list[int] = []
    submit = WriteHandle.submit_each

    def counted(self: WriteHandle, payloads: list[bytes], *about: object) -> None:
        submitted.append(len(payloads))
        submit(self, payloads, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(WriteHandle, "submit_each", counted)
    async with await log.writer() as writer:
        futures = [await writer.append_async(b"x") for _ in range(1000)]
        assert writer.pending_bytes == 1000 * (1 + HEAD_BYTES + ENTRY_OVERHEAD_BYTES)
        assert submitted == []
        await futures[-1]
        assert submitted == [1000]
        assert [future.result() for future in futures] == list(range(1000))
        await turns()
        assert writer.pending_bytes == 0


async def test_a_frame_of_single_records_is_passed_on_before_the_application_pauses(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgers.logs.writing.writer_shell.FRAME_BYTES_MAX", 10 * ENTRY_OVERHEAD_BYTES)
    log = await client.create_log("orders")
    async with await log.writer() as writer:
        for _ in range(20):
            await writer.append_async(b"x")
        assert 0 < len(writer._gathered.payloads) <= 10
        await writer.flush()


async def test_records_that_wait_in_a_turn_fail_with_the_writer_that_is_given_up(log: Log) -> None:
    writer = await log.writer()
    future = await writer.append_async(b"x")
    await writer.abandon()
    with pytest.raises(LogClosed):
        await future
    with pytest.raises(LogClosed):
        await writer.append_async(b"y")
    await turns()
    async with await log.writer() as heir:
        assert await heir.append(b"z") == 0


async def test_a_record_that_cannot_be_taken_in_ends_the_writer_and_is_told(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await log.writer()
    future = await writer.append_async(b"x")
    monkeypatch.setattr("ledgers.logs.writing.writer_shell.encode", None)
    with pytest.raises(LedgerError, match="the writer failed"):
        await future
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="the writer failed"):
        await writer.close()
