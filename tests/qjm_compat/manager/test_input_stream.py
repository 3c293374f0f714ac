"""Reading segments from whichever acceptor can give them: nothing is skipped, nothing comes twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import ClientConfig
from ledgers.protocol.quorum import majority
from qjm_compat import AcceptorConfig, JournalConfig, SegmentUnreadable
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.batch import Batch
from qjm_compat.manager.input_stream import EditLogInputStream
from qjm_compat.manager.segments_seen import segments_seen
from qjm_compat.requests import GetEditLogManifest, Manifest, SendEdits
from tests.qjm_compat.auditor import edits_of
from tests.qjm_compat.gates import Spoil, SpoiltCopy, gates_of, leave_out
from tests.qjm_compat.journals import ACCEPTORS, JOURNAL, NAMESPACE, frames, manager_on, on_journal, write
from tests.support.aio import take, until_true
from tests.support.in_process import InProcessCluster, cluster_of

FLUSHES, TXNS = 6, 4
LAST = FLUSHES * TXNS


def whole(batch: Batch) -> Batch:
    return batch


def damaged_at(txid: int) -> Spoil:
    def spoil(batch: Batch) -> Batch:
        if not batch.first_txid <= txid <= batch.last_txid:
            return batch
        records = bytearray(batch.records)
        records[-1] ^= 1
        return replace(batch, records=bytes(records))

    return spoil


def ends_before(txid: int) -> Spoil:
    return lambda batch: batch if batch.last_txid < txid else None


def lacks(txid: int) -> Spoil:
    """The batches behind it come without it."""

    def spoil(batch: Batch) -> Batch:
        return replace(batch, first_txid=batch.first_txid + TXNS) if batch.last_txid >= txid else batch

    return spoil


async def a_segment(manager: QuorumJournalManager) -> EditLogInputStream:
    """With the copies of all acceptors, while `select_input_streams` is content with those of a majority."""
    out = await manager.start_log_segment(1)
    for _ in range(FLUSHES):
        await write(out, TXNS)
    await out.close()
    await manager.finalize_log_segment(1, LAST)

    async def manifests() -> dict[int, Manifest]:
        asked = [logger.call(GetEditLogManifest(1)) for logger in manager._set.loggers]
        return dict(enumerate(await asyncio.gather(*asked)))

    async def all_have_it() -> bool:
        return all(manifest.logs for manifest in (await manifests()).values())

    await until_true(all_have_it)
    quorum = majority(tuple(range(len(manager._journals))))
    (segment,) = segments_seen(await manifests(), quorum, only_durable=True)
    return EditLogInputStream(segment, dict(enumerate(manager._journals.values())), 1)


async def records_of(stream: EditLogInputStream) -> bytes:
    async with aclosing(stream.batches()) as batches:
        return b"".join([batch.records async for batch in batches])


def spoil_copies(stream: EditLogInputStream, spoils: list[Spoil]) -> list[SpoiltCopy]:
    """The copies in the order in which the stream turns to them."""
    order = [copy.acceptor for copy in stream._segment.copies]
    assert len(order) == len(spoils)
    copies = [SpoiltCopy(stream._readers[n], spoil) for n, spoil in zip(order, spoils, strict=True)]
    stream._readers = dict(zip(order, copies, strict=True))
    return copies


@pytest.mark.parametrize("spoil", [damaged_at, ends_before, lacks])
async def test_a_copy_that_is_damaged_or_short_or_has_a_gap_is_left_at_the_very_batch(
    tmp_path: Path, spoil: object
) -> None:
    assert callable(spoil)
    async with on_journal(tmp_path, 3) as (_, manager):
        stream = await a_segment(manager)
        copies = spoil_copies(stream, [spoil(10), spoil(18), whole])
        assert await records_of(stream) == frames(1, LAST)
        assert [copy.reads for copy in copies] == [[1], [9], [17]]
        assert [op.txid async for op in stream] == list(range(1, LAST + 1)), "a stream may be read again"


async def test_a_copy_that_failed_is_tried_again_behind_the_others(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (_, manager):
        stream = await a_segment(manager)
        copies = spoil_copies(
            stream, [lambda b: b if b.first_txid not in (5,) else None, damaged_at(9), damaged_at(9)]
        )
        assert await records_of(stream) == frames(1, LAST)
        assert [copy.reads for copy in copies] == [[1, 9], [5], [9]]


async def test_when_no_copy_has_the_next_transaction_each_one_is_named_and_what_came_before_is_good(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 3) as (_, manager):
        stream = await a_segment(manager)
        spoil_copies(stream, [damaged_at(10), ends_before(10), lacks(10)])
        records = b""
        with pytest.raises(SegmentUnreadable, match="no copy of segment 1-24 has txid 9") as raised:
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    records += batch.records
        assert records == frames(1, 8)
        assert all(why in str(raised.value) for why in ("damaged", "ends at txid 8", "txid 9 is missing"))


async def test_a_stream_begins_at_the_transaction_asked_for_also_inside_of_a_batch(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        await a_segment(manager)
        for txid in (1, 2, 4, 5, 23, LAST):
            (stream,) = await manager.select_input_streams(txid)
            assert (stream.first_txid, stream.last_txid) == (txid, LAST)
            assert await records_of(stream) == frames(txid, LAST - txid + 1)
            assert [op.txid async for op in stream] == list(range(txid, LAST + 1))
        assert await manager.select_input_streams(LAST + 1, in_progress_ok=True) == []


async def test_of_a_segment_in_progress_only_what_a_quorum_has_is_read(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (cluster, manager):
        out = await manager.start_log_segment(1)
        await write(out, 2)

        async def tell(acceptors: int, first_txid: int) -> None:
            """Two more edits that only so many acceptors get, and nobody is told are committed."""
            request = SendEdits(
                segment_txid=1, first_txid=first_txid, num_txns=2, records=frames(first_txid, 2)
            )
            for logger in manager._set.loggers[:acceptors]:
                await logger.call(request)

        await tell(2, 3)
        await tell(1, 5)
        async with manager_on(cluster.uri, 3) as reader:

            async def ends(*, only_durable: bool) -> list[int]:
                streams = await reader.select_input_streams(1, in_progress_ok=True, only_durable=only_durable)
                return [stream.last_txid for stream in streams]

            async def all_is_seen() -> bool:
                return await ends(only_durable=False) == [6] and await ends(only_durable=True) == [4]

            await until_true(all_is_seen)
            (stream,) = await reader.select_input_streams(2, in_progress_ok=True)
            assert stream.is_in_progress
            assert await records_of(stream) in (frames(2, 1), frames(2, 3)), (
                "as far as those that answered know"
            )
            assert await reader.select_input_streams(5, in_progress_ok=True) == []
            assert await reader.select_input_streams(1) == []
            async with aclosing(reader.tail(1)) as edits:
                assert [op.txid for op in await take(4, edits)] == [1, 2, 3, 4]
            assert await reader.journaled_edits(5) is None


async def test_an_acceptor_that_lags_and_answers_first_does_not_hide_what_the_others_have(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 3) as (cluster, manager):
        out = await manager.start_log_segment(1)
        await write(out, 2)
        await leave_out(manager._set.loggers[2])
        await write(out, 2)
        patient = JournalConfig(tail_poll_seconds=20)
        async with manager_on(cluster.uri, 3, config=patient) as reader:
            gates = gates_of(reader)

            async def all_is_seen() -> bool:
                streams = await reader.select_input_streams(1, in_progress_ok=True)
                return [stream.last_txid for stream in streams] == [4]

            await until_true(all_is_seen)
            gates[1].shut()
            asking = asyncio.create_task(reader.journaled_edits(3))
            done, _ = await asyncio.wait([asking], timeout=0.2)
            assert not done
            gates[1].open()
            edits = await asking
            assert edits is not None and edits.records == frames(3, 2)


async def test_acceptors_on_clusters_of_their_own_go_on_reading_and_writing_without_one_of_the_clusters(
    tmp_path: Path,
) -> None:
    """Three clusters with a metadata store and a bookie each; one loses its bookie while a segment is read."""
    alone = JournalConfig(ensemble_size=1, write_quorum=1, ack_quorum=1)

    async def scenario(clusters: list[InProcessCluster], manager: QuorumJournalManager) -> None:
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        stream = await a_segment(manager)
        async with aclosing(stream.batches()) as batches:
            records = (await anext(batches)).records
            await clusters[stream._segment.copies[0].acceptor].stop("b1")
            records += b"".join([batch.records async for batch in batches])
        assert records == frames(1, LAST)
        assert await records_of(stream) == frames(1, LAST), "from another cluster from the first batch on"
        async with await manager.start_log_segment(LAST + 1) as out:
            await write(out, TXNS)
        await manager.finalize_log_segment(LAST + 1, LAST + TXNS)
        assert [txid async for txid, _ in edits_of(manager)] == list(range(1, LAST + TXNS + 1))

    async with AsyncExitStack() as stack:
        clusters = []
        for name in ACCEPTORS:
            (tmp_path / name).mkdir()
            clusters.append(await stack.enter_async_context(cluster_of(tmp_path / name, 1)))
        acceptors = [AcceptorConfig(name, c.uri) for name, c in zip(ACCEPTORS, clusters, strict=True)]
        quick = ClientConfig(append_seconds_max=0.5, read_seconds_max=0.5, recovery_tries_max=1)
        manager = QuorumJournalManager(
            clusters[0].uri, JOURNAL, acceptors=acceptors, config=alone, client_config=quick
        )
        await scenario(clusters, await stack.enter_async_context(manager))


async def test_dead_bookies_of_a_single_acceptor_are_no_matter_while_one_copy_is_left(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (cluster, manager):
        stream = await a_segment(manager)
        for name in ("b1", "b2"):
            await cluster.stop(name)
        assert await records_of(stream) == frames(1, LAST)
        await cluster.stop("b3")
        with pytest.raises(SegmentUnreadable, match="no copy of segment 1-24 has txid 1"):
            await records_of(stream)
