"""The writer's end of a segment, over real acceptors on real bookies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qjm_compat import BadJournalState, BadRequest, JournalUnavailable, QuorumFailed, StreamClosed
from qjm_compat.manager import output_stream
from qjm_compat.manager.output_stream import FLUSHES_UNDER_WAY_MAX
from qjm_compat.requests import SendEdits
from tests.qjm_compat.gates import gates_of
from tests.qjm_compat.journals import SOON, frames, manager_on, mkdir, on_journal, send, write
from tests.support.aio import cancel, until_true


async def test_edits_written_after_one_buffer_was_set_apart_wait_for_the_next_flush(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(1)
        out.write(mkdir(1, "/a"))
        out.set_ready_to_flush()
        out.write(mkdir(2, "/b"))
        out.write_raw(frames(3, 2), 2)
        assert (out.committed_txid, out.next_txid) == (0, 5)
        assert await out.flush() == out.committed_txid == 1
        assert await out.flush() == 1, "nothing was set apart"
        out.set_ready_to_flush()
        assert await out.flush() == 4
        assert out.buffered_bytes == 0
        await out.close()


async def test_a_second_buffer_is_not_set_apart_while_the_first_is_not_flushed(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(1)
        out.write(mkdir(1, "/a"))
        out.set_ready_to_flush()
        out.write(mkdir(2, "/b"))
        with pytest.raises(StreamClosed, match="has not been flushed"):
            out.set_ready_to_flush()
        assert await out.flush() == 1
        out.set_ready_to_flush()
        assert await out.flush() == 2


async def test_an_edit_that_is_not_the_next_or_not_sound_is_refused_and_nothing_of_it_is_kept(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(5)
        damaged = bytearray(frames(5, 2))
        damaged[-1] ^= 1
        with pytest.raises(BadRequest, match="the next txid is 5"):
            out.write(mkdir(6, "/a"))
        for records, count in ((frames(6, 1), 1), (frames(5, 2), 3), (frames(5, 2), 1), (bytes(damaged), 2)):
            with pytest.raises(BadRequest, match="cannot be written"):
                out.write_raw(records, count)
        assert (out.next_txid, out.buffered_bytes) == (5, 0)
        assert await write(out) == 5


async def test_it_is_time_to_flush_when_the_filling_buffer_has_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_stream, "OUTPUT_BUFFER_BYTES", 1000)
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(1)
        out.write_raw(frames(1, 1), 1)
        assert not out.should_force_sync()
        while out.buffered_bytes < 1000:
            out.write_raw(frames(out.next_txid, 1), 1)
        assert out.should_force_sync()
        out.set_ready_to_flush()
        assert not out.should_force_sync(), "what was set apart is flushed already"


async def test_a_flush_returns_when_a_majority_has_the_edits_on_disk_and_not_before(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (cluster, manager):
        _, b, c = gates_of(manager)
        out = await manager.start_log_segment(1)
        c.shut()
        assert await write(out, 3) == 3
        async with manager_on(cluster.uri, 3) as reader:

            async def seen() -> bool:
                streams = await reader.select_input_streams(1, in_progress_ok=True)
                return [stream.last_txid for stream in streams] == [3]

            await until_true(seen)  # others learn of it with the next batch, or a moment later
        b.shut()
        flush = asyncio.create_task(write(out))
        done, _ = await asyncio.wait([flush], timeout=SOON)
        assert not done and out.committed_txid == 3
        c.open()
        assert await flush == 4


async def test_a_flush_that_failed_ends_the_stream_and_says_why_ever_after(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (_, manager):
        gates = gates_of(manager)
        out = await manager.start_log_segment(1)
        await write(out, 2)
        for gate in gates[1:]:
            gate.refusal = JournalUnavailable("its disks burn")
        out.write(mkdir(3, "/a"))
        out.set_ready_to_flush()
        with pytest.raises(QuorumFailed, match="its disks burn") as raised:
            await out.flush()
        assert set(raised.value.errors) == {"b", "c"}
        with pytest.raises(QuorumFailed) as again:
            out.write(mkdir(4, "/b"))
        assert again.value is raised.value
        with pytest.raises(QuorumFailed):
            out.set_ready_to_flush()
        with pytest.raises(QuorumFailed):
            await out.flush()
        assert out.committed_txid == 2
        await out.close()


async def test_a_caller_that_is_told_first_has_all_the_room_of_those_that_ended_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(1)
        flushes: list[asyncio.Future[int]] = []

        def sent(request: SendEdits) -> asyncio.Future[int]:
            flushes.append(asyncio.get_running_loop().create_future())
            return flushes[-1]

        monkeypatch.setattr(out._loggers, "send", sent)
        for _ in range(FLUSHES_UNDER_WAY_MAX):
            await send(out)
        for txid, flush in enumerate(flushes, start=1):
            flush.set_result(txid)
        for _ in range(FLUSHES_UNDER_WAY_MAX):  # the loop has told the stream of none of them yet
            with pytest.raises(StopIteration):
                send(out).send(None)
        assert out.committed_txid == FLUSHES_UNDER_WAY_MAX
        await out.abort()


async def test_closing_behind_flushes_that_have_just_ended_ends_too(tmp_path: Path) -> None:
    """A task is done one step before its callbacks run; waiting for it in between must not keep the loop busy."""
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(1)
        for _ in range(20):
            sent = [await send(out) for _ in range(5)]
            await sent[0]
            while not sent[-1].done():  # noqa: ASYNC110 — a step of our own loop
                await asyncio.sleep(0)
            await out.flush()
        await out.close()


async def test_closing_waits_for_what_was_sent_and_refuses_to_lose_what_was_not(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        out = await manager.start_log_segment(1)
        sent = await send(out)
        await out.close()
        assert sent.done() and sent.result() == 1
        await out.close()
        with pytest.raises(StreamClosed):
            out.write(mkdir(2, "/a"))
        await manager.finalize_log_segment(1, 1)
        out = await manager.start_log_segment(2)
        out.write(mkdir(2, "/a"))
        out.set_ready_to_flush()
        out.write(mkdir(3, "/a"))
        with pytest.raises(StreamClosed, match="2 transactions were written but not flushed"):
            await out.close()
        with pytest.raises(StreamClosed):
            await out.flush()


async def test_an_aborted_stream_says_nothing_of_what_it_held_and_ends_flushes_under_way(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 1) as (cluster, manager):
        (gate,) = gates_of(manager)
        out = await manager.start_log_segment(1)
        await write(out, 2)
        gate.shut()
        flush = asyncio.create_task(write(out))

        await until_true(lambda: len(gate.called(SendEdits)) == 2)
        out.write(mkdir(4, "/not-sent"))
        await out.abort()
        with pytest.raises(StreamClosed, match="unknown"):
            await flush
        gate.open()
        async with manager_on(cluster.uri) as after:
            recovered = await after.recover_unfinalized_segments()
            assert recovered is not None and recovered.end_txid in (2, 3), "what was sent may be there or not"


async def test_a_caller_that_gives_a_flush_up_leaves_the_stream_as_it_is(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        (gate,) = gates_of(manager)
        out = await manager.start_log_segment(1)
        gate.shut()
        flush = asyncio.create_task(write(out))
        await asyncio.wait([flush], timeout=SOON)
        await cancel(flush)
        gate.open()
        assert await write(out) == 2


async def test_used_as_a_context_a_stream_is_closed_after_success_and_aborted_after_an_error(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        with pytest.raises(ZeroDivisionError):
            async with await manager.start_log_segment(1) as out:
                out.write(mkdir(1, "/a"))
                raise ZeroDivisionError
        async with await manager.start_log_segment(1) as out:
            await write(out)
            with pytest.raises(BadJournalState, match="still being written"):
                await manager.start_log_segment(2)
        for first_txid in (1, 2):
            with pytest.raises(BadJournalState, match="segment 1 is not finalized"):
                await manager.start_log_segment(first_txid)
        await manager.finalize_log_segment(1, 1)
