"""A follower reads the segments where JournalNodes have the edits not at hand."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from ledgers.aio import LedgerClient
from metadata.records.journal_store import JournalStore
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.config import JournalConfig
from qjm_compat.errors import EditsNotCached, QuorumFailed, SegmentUnreadable
from qjm_compat.hadoop.client.connection import error_named
from qjm_compat.hadoop.wire import qjournal_messages
from qjm_compat.hadoop.wire.hadoop_rpc import JOURNAL_PROTOCOL
from qjm_compat.hadoop.wire.methods import METHODS
from qjm_compat.requests import GetJournaledEdits
from tests.qjm_compat.journals import NAMESPACE, write, write_segment
from tests.support.aio import until_true
from tests.support.in_process import QUICK, cluster_of
from tests.support.served_journal_node import served_node


def like_a_stock_node(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours as it answers a stock NameNode, which does not ask for what is in ledgers; or one of 2.7."""
    if answer == "no such method":
        monkeypatch.delitem(METHODS[JOURNAL_PROTOCOL], "getJournaledEdits")
    monkeypatch.delitem(qjournal_messages._WRITTEN_APART, GetJournaledEdits)


@pytest.mark.parametrize("answer", ["a miss", "no such method"])
async def test_what_is_not_at_hand_is_read_from_the_segments_as_far_as_a_quorum_has_it(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like_a_stock_node(answer, monkeypatch)
    served = JournalConfig(ensemble_size=1, edits_cache_bytes_max=200)
    config = JournalConfig(tail_poll_seconds=0.01)
    async with (
        cluster_of(tmp_path, 1) as cluster,
        LedgerClient(cluster.uri, config=QUICK) as client,
        AsyncExitStack() as stack,
    ):
        nodes = [
            await stack.enter_async_context(served_node(name, cluster.store, client, served))
            for name in ("jn1", "jn2", "jn3")
        ]
        uri = f"qjournal://{';'.join(node.address for node in nodes)}/ns1"
        writer = await stack.enter_async_context(QuorumJournalManager(uri, namespace=NAMESPACE))
        await writer.format(NAMESPACE)
        await writer.recover_unfinalized_segments()
        await write_segment(writer, 1, 4)
        out = await writer.start_log_segment(5)
        await write(out, 2)
        reader = await stack.enter_async_context(QuorumJournalManager(uri, config=config))
        with pytest.raises(QuorumFailed):
            await reader.journaled_edits(1)
        async with aclosing(reader.tail(2)) as edits:
            seen = [(await anext(edits)).txid for _ in range(4)]
            await write(out, 1)
            await write(out, 1)
            seen += [(await anext(edits)).txid for _ in range(2)]
        assert seen == [2, 3, 4, 5, 6, 7]
        await out.close()
        await writer.finalize_log_segment(5, 8)
        await writer.purge(5)
        stores = [JournalStore(cluster.store, "ns1", name) for name in ("jn1", "jn2", "jn3")]

        async def have_purged() -> bool:  # a majority has at once
            found = [await store.read_state() for store in stores]
            return all(one is not None and one.state.purged_below == 5 for one in found)

        await until_true(have_purged)
        async with aclosing(reader.tail(2)) as edits:
            with pytest.raises(SegmentUnreadable, match=r"txids 2 to 4 .* the oldest edit is 5"):
                await anext(edits)


def test_a_node_without_a_cache_says_so_in_hadoops_words() -> None:
    said = "The journal edits cache is not enabled, which is a requirement to fetch journaled edits via RPC."
    assert isinstance(error_named("java.io.IOException", said), EditsNotCached)
