"""A source that gives a torn or wrong copy: nothing of it is taken over, and nothing is left behind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from qjm_compat import AcceptorConfig
from qjm_compat.acceptor.copying import SegmentContent
from qjm_compat.acceptor.journal import Journal
from qjm_compat.acceptor.programs.sync_programs import SyncOutcome
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.batch import Batch
from qjm_compat.errors import SegmentUnreadable
from qjm_compat.requests import RemoteEditLog
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, frames, write
from tests.qjm_compat.test_formatting import CONFIG
from tests.support.in_process import QUICK, InProcessCluster, on_bookies

WHOLE = RemoteEditLog(1, 30, writer_epoch=1)

Change = Callable[[list[Batch]], list[Batch]]


class Changed:
    """Reads another acceptor's segment, and gives something else."""

    def __init__(self, source: Journal, change: Change) -> None:
        self.name = source.name
        self._source = source
        self._change = change

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        content = await self._source.read_segment(start_txid, from_txid, in_progress_ok=in_progress_ok)
        batches = [batch async for batch in content.batches]
        assert [batch.num_txns for batch in batches] == [10, 10, 10]
        return replace(content, batches=_each(self._change(batches)))


async def _each(batches: list[Batch]) -> AsyncGenerator[Batch, None]:
    for batch in batches:
        yield batch


def with_a_wrong_byte(batches: list[Batch]) -> list[Batch]:
    records = bytearray(batches[1].records)
    records[len(records) // 2] ^= 1
    return [batches[0], replace(batches[1], records=bytes(records)), batches[2]]


def torn_in_a_record(batches: list[Batch]) -> list[Batch]:
    return [*batches[:2], replace(batches[2], records=bytes(batches[2].records)[:-5])]


def without_its_end(batches: list[Batch]) -> list[Batch]:
    return batches[:2]


def with_a_hole(batches: list[Batch]) -> list[Batch]:
    return [batches[0], batches[2]]


def of_another_writer(batches: list[Batch]) -> list[Batch]:
    other = replace(batches[1], records=frames(11, 10, by="other"), writer_epoch=2)
    return [batches[0], other, batches[2]]


@pytest.mark.parametrize(
    "change", [with_a_wrong_byte, torn_in_a_record, without_its_end, with_a_hole, of_another_writer]
)
async def test_a_torn_or_wrong_copy_is_not_taken_over_and_a_whole_one_is(
    tmp_path: Path, change: Change
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        await _written_at_a(cluster)
        source, target = (Journal(JOURNAL, name, cluster.store, client, CONFIG, {}) for name in ("a", "b"))
        ledgers = len([one async for one in client.list_ledgers()])
        with pytest.raises(SegmentUnreadable):
            await target.take_finalized(WHOLE, Changed(source, change), _unpaced, _yes)
        assert len([one async for one in client.list_ledgers()]) == ledgers
        assert (await target.segments_held()).logs == ()
        assert target.metrics.snapshot()["NumEditLogsSynced"] == 0
        assert await target.take_finalized(WHOLE, source, _unpaced, _yes) is SyncOutcome.COPIED
        assert target.metrics.snapshot()["NumEditLogsSynced"] == 1
        content = await target.read_segment(1, 1)
        assert b"".join([bytes(batch.records) async for batch in content.batches]) == frames(1, 30)


async def _written_at_a(cluster: InProcessCluster) -> None:
    """Segment 1-30 in three batches; `b` is formatted, and knows nothing of it."""
    for name in ("a", "b"):
        acceptors = [AcceptorConfig(name, cluster.uri)]
        async with QuorumJournalManager(
            cluster.uri, JOURNAL, acceptors=acceptors, config=CONFIG, client_config=QUICK
        ) as manager:
            await manager.format(NAMESPACE)
            if name == "a":
                await manager.recover_unfinalized_segments()
                async with await manager.start_log_segment(1) as out:
                    for _ in range(3):
                        await write(out, 10)
                await manager.finalize_log_segment(1, 30)


async def _unpaced(_: int) -> None:
    """As fast as it goes."""


async def _yes() -> bool:
    return True
