"""The channel's shell: one writer's calls to one real acceptor."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from qjm_compat import (
    BadJournalState,
    JournalConfig,
    JournalOutOfSync,
    JournalUnavailable,
    LoggerTooFarBehind,
)
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.manager.logger import PARALLEL_READS_MAX, READS_WAITING_MAX, Logger
from qjm_compat.requests import (
    FinalizeLogSegment,
    GetEditLogManifest,
    GetJournaledEdits,
    Heartbeat,
    R,
    Request,
    SendEdits,
    StartLogSegment,
    WriterRequest,
)
from tests.qjm_compat.gates import Gate, gates_of, leave_out
from tests.qjm_compat.journals import SOON, frames, manager_on, on_journal, write
from tests.support.aio import until_true

FOLLOWED = 30
"""How often a follower asks, while one acceptor does not answer."""


def edits(first_txid: int, count: int = 1, segment_txid: int = 1) -> SendEdits:
    return SendEdits(
        segment_txid=segment_txid, first_txid=first_txid, num_txns=count, records=frames(first_txid, count)
    )


def logger_of(manager: QuorumJournalManager) -> Logger:
    (logger,) = manager._set.loggers
    return logger


async def test_batches_follow_each_other_and_what_changes_the_segment_waits_for_them(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        (gate,), logger = gates_of(manager), logger_of(manager)
        await logger.call(StartLogSegment(txid=1))
        gate.calls.clear()
        gate.shut()
        sent = [logger.call(edits(txid)) for txid in (1, 2, 3)]
        end = logger.call(FinalizeLogSegment(start_txid=1, end_txid=3))
        start = logger.call(StartLogSegment(txid=4))
        await asyncio.wait(sent, timeout=SOON)
        assert [type(call) for call in gate.calls] == [SendEdits] * 3
        gate.open()
        await asyncio.gather(*sent, end, start)
        assert isinstance(gate.calls[3], FinalizeLogSegment) and isinstance(gate.calls[4], StartLogSegment)
        serials = [call.info.serial for call in gate.called(WriterRequest)]
        assert serials == list(range(serials[0], serials[0] + 5))


async def test_reads_go_past_calls_that_wait(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        (gate,), logger = gates_of(manager), logger_of(manager)
        await logger.call(StartLogSegment(txid=1))
        await logger.call(edits(1))
        gate.shut()
        waiting = logger.call(edits(2))
        read = logger.call(GetEditLogManifest(1, True))

        await until_true(lambda: bool(gate.called(GetEditLogManifest)))
        assert not waiting.done()
        gate.open()
        assert [log.start_txid for log in (await read).logs] == [1]
        await waiting


async def test_an_acceptor_that_missed_a_batch_is_left_out_until_it_has_begun_the_next_segment(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 3, config=JournalConfig(heartbeat_seconds=0.01)) as (cluster, manager):
        gate, logger = gates_of(manager)[2], manager._set.loggers[2]
        out = await manager.start_log_segment(1)
        await write(out)
        await until_true(lambda: logger.channel.highest_acked_txid == 1)
        gate.refusal = JournalUnavailable("its disk is away")
        await write(out)
        await until_true(lambda: logger.channel.is_out_of_sync)
        gate.refusal = None
        gate.calls.clear()
        await write(out)
        with pytest.raises(JournalOutOfSync, match="disabled until next roll"):
            await logger.call(edits(4))
        assert {type(call) for call in gate.calls} <= {Heartbeat}
        assert "c (Written txid 1 (2 txns/" in out.report()
        assert "behind) (will try to re-sync on next segment)" in out.report()
        await out.close()
        await manager.finalize_log_segment(1, 3)
        assert not gate.called(FinalizeLogSegment)
        out = await manager.start_log_segment(4)
        await write(out)
        await until_true(lambda: "c (Written txid 4)" in out.report())
        assert manager.metrics()["IPCLoggerChannel-c"]["IsOutOfSync"] == "false"
        async with manager_on(cluster.uri, 3) as reader:
            segments = await reader._journals["c"].call(GetEditLogManifest(1))
            assert segments.logs == (), "it never finalized the segment that it missed an edit of"


async def test_an_acceptor_out_of_sync_is_told_now_and_then_what_is_committed(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3, config=JournalConfig(heartbeat_seconds=0.01)) as (_, manager):
        gate, logger = gates_of(manager)[2], manager._set.loggers[2]
        out = await manager.start_log_segment(1)
        await leave_out(logger)
        await write(out, 2)

        async def told() -> bool:
            await write(out)
            return any((beat.info.committed_txid or 0) >= 2 for beat in gate.called(Heartbeat))

        await until_true(told)


async def test_an_acceptor_for_which_too_much_waits_gets_no_more_and_the_writer_goes_on(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 3, config=JournalConfig(queued_edits_bytes_max=2000)) as (_, manager):
        gate, logger = gates_of(manager)[2], manager._set.loggers[2]
        out = await manager.start_log_segment(1)
        gate.shut()
        while logger.channel.queued_bytes + len(frames(1, 10)) <= 2000:
            await write(out, 10)
        with pytest.raises(LoggerTooFarBehind, match="too far behind"):
            await logger.call(edits(out.next_txid, 10))
        await write(out, 10)
        lag = manager.metrics()["IPCLoggerChannel-c"]
        assert lag["CurrentLagTxns"] == out.committed_txid
        assert int(lag["LagTimeMillis"]) > 0
        assert 0 < int(lag["QueuedEditsSize"]) <= 2000
        gate.open()
        await until_true(lambda: logger.channel.queued_bytes == 0)
        assert logger.channel.highest_acked_txid == out.committed_txid - 10
        await write(out, 10)  # comes behind a gap
        await until_true(lambda: logger.channel.is_out_of_sync)


async def test_a_single_batch_is_let_in_however_large_it_is(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1, config=JournalConfig(queued_edits_bytes_max=1)) as (_, manager):
        out = await manager.start_log_segment(1)
        assert await write(out, 1000) == 1000


async def test_nothing_is_written_before_there_is_an_epoch_and_nothing_after_the_end(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (cluster, manager):
        async with manager_on(cluster.uri) as other:
            logger = logger_of(other)
            with pytest.raises(BadJournalState, match="bad epoch: 0"):
                await logger.call(StartLogSegment(txid=1))
        with pytest.raises(JournalUnavailable, match="was closed"):
            await logger.call(GetEditLogManifest(1))
        (gate,), logger = gates_of(manager), logger_of(manager)
        await logger.call(StartLogSegment(txid=1))
        gate.shut()
        waiting = [logger.call(edits(1)), logger.call(FinalizeLogSegment(start_txid=1, end_txid=1))]
        await asyncio.wait(waiting, timeout=SOON)
        await logger.close()
        for call in waiting:
            with pytest.raises(JournalUnavailable, match="was closed"):
                await call


class EndsLate(Gate):
    """An acceptor that finishes what it has begun before it ends a cancelled call."""

    async def call(self, request: Request[R]) -> R:
        try:
            return await super().call(request)
        except asyncio.CancelledError as error:
            raise JournalUnavailable("the call was cancelled") from error


async def test_a_call_that_ends_late_when_the_channel_is_closed_lets_nothing_go_behind_it(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        logger = logger_of(manager)
        logger.acceptor = late = EndsLate(logger.acceptor)
        late.shut()
        waiting = [
            logger.call(StartLogSegment(txid=1)),
            logger.call(FinalizeLogSegment(start_txid=1, end_txid=1)),
        ]
        await until_true(lambda: bool(late.calls))
        await logger.close()
        late.open()
        for call in waiting:
            with pytest.raises(JournalUnavailable):
                await call
        assert [type(call) for call in late.calls] == [StartLogSegment]
        assert not logger._tasks._running


async def test_so_many_reads_wait_for_an_acceptor_and_those_given_up_make_room(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        (gate,), logger = gates_of(manager), logger_of(manager)
        gate.shut()
        reads = [logger.call(GetEditLogManifest(1)) for _ in range(READS_WAITING_MAX)]
        with pytest.raises(
            JournalUnavailable, match=f"main has not answered any of {READS_WAITING_MAX} reads"
        ):
            await logger.call(GetEditLogManifest(1))

        async def so_many_asked(count: int) -> None:
            await until_true(lambda: len(gate.calls) >= count)
            assert len(gate.calls) == count

        await so_many_asked(PARALLEL_READS_MAX)
        for read in reads[: 2 * PARALLEL_READS_MAX]:  # under way are the first half of them
            read.cancel()
        await so_many_asked(2 * PARALLEL_READS_MAX)
        one_more = logger.call(GetEditLogManifest(1))
        gate.open()
        await asyncio.gather(one_more, *reads[2 * PARALLEL_READS_MAX :])
        assert len(gate.calls) == READS_WAITING_MAX + 1 - PARALLEL_READS_MAX


async def test_a_follower_leaves_no_reads_behind_at_an_acceptor_that_hangs(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (cluster, manager):
        out = await manager.start_log_segment(1)
        await write(out)
        async with manager_on(cluster.uri, 3) as reader:
            gates_of(reader)[2].shut()
            await reader.journaled_edits(1)
            before = len(asyncio.all_tasks())
            for _ in range(FOLLOWED):
                await reader.journaled_edits(1)
            assert len(asyncio.all_tasks()) - before <= PARALLEL_READS_MAX


async def test_a_call_that_breaks_off_ends_at_once_is_logged_whole_and_blocks_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no JournalError is a defect: its call ends with it, and those behind it are made."""
    with caplog.at_level(logging.ERROR):
        async with on_journal(tmp_path, 1) as (_, manager):
            logger = logger_of(manager)
            with pytest.raises(TypeError):
                await logger.call(StartLogSegment(txid="no txid"))  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                await logger.call(GetJournaledEdits("no txid", 1))  # type: ignore[arg-type]
            await manager.start_log_segment(1)
    broken = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert broken == [TypeError, TypeError]
