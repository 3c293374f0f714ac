"""Journals end to end: bookies in processes of their own that die, etcd that goes away, followers, acceptors apart."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig
from qjm_compat import BadJournalState, JournalConfig, QuorumFailed, StaleEpoch
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.edits import EditOp
from qjm_compat.edits.ops.namespace import Mkdir
from qjm_compat.manager import follower
from qjm_compat.manager.output_stream import EditLogOutputStream
from tests.qjm_compat.auditor import audit, confirmed_batch, differing_copies
from tests.qjm_compat.journals import NAMESPACE, frames, manager_on, on_journal, write, write_segment
from tests.support.aio import run, take, until_true
from tests.support.etcd import EtcdServer

CLIENT = ClientConfig(append_seconds_max=2, retry_replacement_seconds=0.1, read_seconds_max=2)


async def write_until(out: EditLogOutputStream, last_txid: int) -> None:
    while out.next_txid <= last_txid:
        await write(out, 3)


async def whole_life(uri: str, acceptors: int) -> None:
    """Two writers, one after the other, and a reader that follows both."""

    def manager() -> QuorumJournalManager:
        return manager_on(uri, acceptors, client_config=CLIENT, journal_id=f"with-{acceptors}")

    async with manager() as first, manager() as reader:
        await first.format(NAMESPACE)
        await first.recover_unfinalized_segments()
        async with aclosing(reader.tail(1)) as edits:
            following = asyncio.create_task(take(40, edits))
            await write_segment(first, 1, 10)
            out = await first.start_log_segment(11)
            await write_until(out, 20)
            async with manager() as second:
                recovered = await second.recover_unfinalized_segments()
                assert recovered is not None and recovered.end_txid == out.next_txid - 1
                with pytest.raises(
                    QuorumFailed, match=r"epoch 1 is over|less than the last promised epoch 2"
                ):
                    await write(out)
                after = recovered.end_txid + 1
                await write_segment(second, after, 40, by="second")
                assert [op.txid for op in await following] == list(range(1, 41))
                notes = [
                    confirmed_batch(1, 10, frames(1, 10), "w"),
                    confirmed_batch(after, 40, frames(after, 41 - after, "second"), "second"),
                ]
                assert await audit(second, notes) == 40
                assert await differing_copies(second) == []
                await second.purge(11)
                await second.do_pre_upgrade()
                await second.do_rollback()
        async with manager() as last:
            assert [stream.first_txid for stream in await last.select_input_streams(0)] == [11, after]


def test_over_etcd_a_journal_goes_from_writer_to_writer_and_a_reader_follows(
    tmp_path: Path, etcd: EtcdServer
) -> None:
    uri = f"etcd://{etcd.endpoint}/{uuid.uuid4().hex}"
    with bookie_processes(3, tmp_path, uri):
        for acceptors in (1, 3):
            run(whole_life(uri, acceptors), timeout_seconds=60)


async def test_a_writer_goes_on_while_bookies_are_killed_in_the_middle_of_a_segment(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(4, tmp_path, uri, lease_seconds=2) as bookies:
        async with manager_on(uri, 3, client_config=CLIENT) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            out = await manager.start_log_segment(1)
            for number, bookie in enumerate(bookies[:2], 1):
                await write_until(out, 100 * number)
                sent = asyncio.create_task(write_until(out, 100 * number + 50))
                await asyncio.to_thread(bookie.kill)
                await sent
                await asyncio.to_thread(bookie.start)
            await out.close()
            last = out.next_txid - 1
            await manager.finalize_log_segment(1, last)
            assert await audit(manager, [confirmed_batch(1, last, frames(1, last), "w")]) == last


async def test_flushes_go_on_while_etcd_is_away_and_the_segment_is_finalized_when_it_is_back(
    tmp_path: Path, own_etcd: EtcdServer
) -> None:
    uri = f"etcd://{own_etcd.endpoint}/outage?timeout=1"
    with bookie_processes(3, tmp_path, uri, lease_seconds=3):
        async with manager_on(uri, client_config=CLIENT) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            out = await manager.start_log_segment(1)
            await write_until(out, 30)
            own_etcd.kill()
            await write_until(out, 60)
            await out.close()
            last = out.next_txid - 1
            finalizing = asyncio.create_task(manager.finalize_log_segment(1, last))
            done, _ = await asyncio.wait([finalizing], timeout=3)  # thrice what a call to etcd may take
            assert not done
            own_etcd.restart()
            await finalizing
            out = await manager.start_log_segment(last + 1)
            await out.close()
            assert await audit(manager, [confirmed_batch(1, last, frames(1, last), "w")]) == last


@pytest.mark.parametrize("acceptors", [1, 3])
async def test_a_new_epoch_alone_stops_the_writer_before_whose_process_has_heard_nothing(
    tmp_path: Path, acceptors: int
) -> None:
    """The old writer's acceptors are its own and know no later promise: the ledgers refuse it."""
    async with on_journal(tmp_path, acceptors) as (cluster, manager):
        out = await manager.start_log_segment(1)
        await write(out, 3)
        async with manager_on(cluster.uri, acceptors) as second:
            assert await second.create_new_unique_epoch() == 2
            with pytest.raises(QuorumFailed, match="epoch 1 is over") as raised:
                await write(out)
            stale = [error for error in raised.value.errors.values() if type(error) is StaleEpoch]
            assert len(stale) > acceptors // 2  # a third may have been behind, and is out of sync
            with pytest.raises(BadJournalState, match="must recover segments"):
                await second.start_log_segment(4)


# --- followers ---------------------------------------------------------------------------------------------


async def txids(edits: AsyncIterator[EditOp], count: int) -> list[int]:
    return [op.txid for op in await take(count, edits)]


@pytest.mark.parametrize("acceptors", [1, 3])
async def test_a_follower_sees_every_edit_once_across_segments_and_writers(
    tmp_path: Path, acceptors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "TAIL_TXNS_MAX", 3)
    async with on_journal(tmp_path, acceptors) as (cluster, manager):
        few_at_a_time = JournalConfig(tail_poll_seconds=0.02)
        async with (
            manager_on(cluster.uri, acceptors, config=few_at_a_time) as reader,
            aclosing(reader.tail(3)) as edits,
        ):
            await write_segment(manager, 1, 10)
            assert await txids(edits, 8) == list(range(3, 11))
            out = await manager.start_log_segment(11)
            for count in (2, 1, 4):
                await write(out, count)
            async with manager_on(cluster.uri, acceptors) as second:
                await second.recover_unfinalized_segments()
                assert await txids(edits, 7) == list(range(11, 18))
                await write_segment(second, 18, 20, by="second")
                assert await txids(edits, 2) == [18, 19]
                op = await anext(edits)
                assert isinstance(op, Mkdir) and op.path == "/second/20"


@pytest.mark.parametrize("cache_bytes", [1, 1 << 20])
async def test_edits_are_at_hand_from_any_transaction_on_cached_or_not(
    tmp_path: Path, cache_bytes: int
) -> None:
    async with on_journal(tmp_path, 1, config=JournalConfig(edits_cache_bytes_max=cache_bytes)) as (
        cluster,
        manager,
    ):
        await write_segment(manager, 1, 6)
        out = await manager.start_log_segment(7)
        for _ in range(3):
            await write(out, 2)
        async with manager_on(cluster.uri) as other:
            for reader in (manager, other):
                for first in range(1, 11):
                    found = await reader.journaled_edits(first)
                    assert found is not None and found.records == frames(first, found.num_txns)
                for first in (11, 12):  # the last flush is told of with the next, or when nothing follows it

                    async def is_told(reader: QuorumJournalManager = reader, first: int = first) -> bool:
                        try:
                            found = await reader.journaled_edits(first)
                        except QuorumFailed:
                            return False
                        assert found is None or found.records == frames(first, 13 - first)
                        return found is not None

                    await until_true(is_told)
            assert await manager.journaled_edits(13) is None
            for reader in (manager, other):
                with pytest.raises(QuorumFailed, match="Highest txn ID available in the journal is"):
                    await reader.journaled_edits(15)
