"""What stock NameNodes and Hadoop's tests ask of a JournalNode, call by call, over the wire."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from qjm_compat.errors import BadRequest, JournalError, JournalNotEmpty, JournalNotFormatted, StaleEpoch
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.qjournal_messages import UNKNOWN_TXID
from qjm_compat.hadoop.wire.segment_splitter import SegmentCutter
from tests.qjm_compat.hadoop.nodes import CONFIG, STORAGE, UPGRADED, active, namespace, on_a_node
from tests.support.served_journal_node import served_node


async def test_a_format_without_force_is_of_2_7_and_wipes_and_one_with_force_false_does_not(
    tmp_path: Path,
) -> None:
    async with on_a_node(tmp_path) as nodes:
        node = nodes.name_node()
        reply = await node.ask("isFormatted")
        assert reply.is_formatted is False
        await node.format(force=False)
        with pytest.raises(JournalNotEmpty, match="current directory is not empty"):
            await node.format(force=False)
        await node.format(force=True)
        await node.become_writer()
        await node.start(1)
        await node.write(1, 1, 2)
        await node.finalize(1, 2)
        await node.format()
        assert list((await node.manifest()).logs) == []
        assert (await node.ask("isFormatted")).is_formatted


async def test_a_name_node_upgrades_under_its_own_epoch_and_what_was_committed_stays_known(
    tmp_path: Path,
) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        node = nodes.name_node()
        assert (await node.become_writer()).last_segment_txid == 3
        epoch = node.epoch
        await node.ask("prepareRecovery", segment_txid=3)
        state = pb.SegmentState(start_txid=3, end_txid=4, in_progress=True)
        await node.ask("acceptRecovery", state=state, from_url="http://nowhere:1/getJournal")
        await node.finalize(3, 4)
        await node.ask("doPreUpgrade")
        manifest = await node.manifest()
        assert [(log.start_txid, log.end_txid) for log in manifest.logs] == [(1, 2), (3, 4)]
        await node.ask("doUpgrade", storage=UPGRADED)
        assert await node.promised() == epoch
        assert (await node.manifest()).committed_txid == 3
        assert (await node.ask("getJournalCTime")).c_time == 99
        await node.start(5)
        await node.write(5, 5, 5)
        await node.ask("doFinalize")
        await node.write(5, 6, 6, committed=5)
        assert (await node.manifest(in_progress_ok=True)).committed_txid == 5


async def test_a_writers_promise_outlives_the_daemon_when_it_upgrades_discards_and_rolls_back(
    tmp_path: Path,
) -> None:
    """The daemon is another one between the promise and each of these calls, which name no epoch."""
    async with on_a_node(tmp_path) as nodes:
        node = await active(nodes)
        await node.finalize(3, 4)
        epoch = node.epoch
        for method, fields in (
            ("doPreUpgrade", {}),
            ("doUpgrade", {"storage": UPGRADED}),
            ("discardSegments", {"start_txid": 5}),
            ("doRollback", {}),
        ):
            async with nodes.another("jn1", []) as restarted:
                await node.go_on_at(restarted)
                await node.ask(method, **fields)
                if method != "doPreUpgrade":  # after which a JournalNode counts as not formatted
                    assert await node.promised() == epoch, method
        await node.go_on_at(nodes.node)
        await node.start(5)
        await node.write(5, 5, 5)
        stranger = nodes.name_node()
        await stranger.ask("doPreUpgrade")
        await stranger.ask("doUpgrade", storage=UPGRADED)
        with pytest.raises(StaleEpoch):
            await node.start(6)


async def test_after_a_rollback_what_was_there_and_committed_is_back(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        node = await active(nodes)
        await node.finalize(3, 4)
        await node.ask("doPreUpgrade")
        await node.ask("doUpgrade", storage=UPGRADED)
        await node.start(5)
        await node.write(5, 5, 6, committed=4)
        other = nodes.name_node()
        can = await other.ask("canRollBack", storage=STORAGE, previous=STORAGE, target_layout_version=-67)
        assert can.can_roll_back
        await other.ask("doRollback")
        manifest = await other.manifest(in_progress_ok=True)
        assert [(log.start_txid, log.end_txid) for log in manifest.logs] == [(1, 2), (3, 4)]
        assert manifest.committed_txid == 3
        with pytest.raises(StaleEpoch):
            await node.write(5, 7, 7)


async def test_discarding_keeps_the_epoch_of_the_writer_that_asks_and_ends_all_others(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        writer = await active(nodes)
        await writer.finalize(3, 4)
        await writer.ask("discardSegments", start_txid=3)
        await writer.start(3)
        await writer.write(3, 3, 3)
        stranger = nodes.name_node()
        await stranger.ask("discardSegments", start_txid=3)
        with pytest.raises(StaleEpoch, match="is less than the last promised epoch"):
            await writer.start(3)


async def test_a_segment_begins_anew_over_one_without_edits_and_over_an_earlier_writers_first_edit(
    tmp_path: Path,
) -> None:
    async with on_a_node(tmp_path) as nodes:
        first = nodes.name_node()
        await first.format(force=False)
        await first.become_writer()
        await first.start(1)
        await first.start(1)
        await first.write(1, 1, 1)
        second = nodes.name_node()
        await second.become_writer()
        await second.start(1)
        await second.write(1, 1, 2)
        await second.finalize(1, 2)


async def test_a_manifest_says_unknown_as_hadoop_does_and_shows_what_is_in_progress_where_asked(
    tmp_path: Path,
) -> None:
    async with on_a_node(tmp_path) as nodes:
        node = nodes.name_node()
        with pytest.raises(JournalNotFormatted):
            await node.manifest()
        await node.format(force=False)
        assert UNKNOWN_TXID == 18446744073709539271
        assert (await node.manifest()).committed_txid == UNKNOWN_TXID
        await node.become_writer()
        await node.start(1)
        await node.write(1, 1, 2)
        assert list((await node.manifest()).logs) == []
        (log,) = (await node.manifest(in_progress_ok=True)).logs
        assert (log.start_txid, log.end_txid, log.in_progress) == (1, 2, True)
        assert list((await node.manifest(since=3, in_progress_ok=True)).logs) == []


async def test_a_copy_is_taken_from_a_peer_and_from_nobody_else(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        host, _, port = nodes.node.http_address.rpartition(":")
        url = f"http://localhost:{port}/getJournal?jid=ns1&segmentTxId=3&inProgressOk=true"
        state = pb.SegmentState(start_txid=3, end_txid=4, in_progress=True)
        for peers, allowed in (([], False), ([(host, int(port))], True)):
            async with nodes.another(f"jn-{len(peers)}", peers) as other:
                node = nodes.name_node(other)
                await node.format(force=False)
                await node.become_writer()
                accept = node.ask("acceptRecovery", state=state, from_url=url)
                if not allowed:
                    with pytest.raises(BadRequest, match="is not a JournalNode that this one copies from"):
                        await accept
                    continue
                await accept
                await node.finalize(3, 4)
                _, _, copy = await nodes.get("jid=ns1&segmentTxId=3", other)
                _, _, original = await nodes.get("jid=ns1&segmentTxId=3")
                assert copy == original


async def test_a_segment_is_sent_as_hadoops_transfer_wants_it(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        status, headers, body = await nodes.get("jid=ns1&segmentTxId=1&storageInfo=-67:7:0:CID-x")
        assert status == 200
        assert int(headers["Content-Length"]) == len(body)
        assert headers["X-Image-Edits-Name"] == "edits_0000000000000000001-0000000000000000002"
        assert headers["X-MD5-Digest"] == hashlib.md5(body).hexdigest()
        cutter = SegmentCutter(1, "")
        batch = cutter.feed(body)
        assert batch is not None and (batch.first_txid, batch.last_txid) == (1, 2)
        _, headers, _ = await nodes.get("jid=ns1&segmentTxId=3")
        assert headers["X-Image-Edits-Name"] == "edits_inprogress_0000000000000000003"
        for query, expected in (
            ("jid=ns1&segmentTxId=3&inProgressOk=false", 404),
            ("jid=ns1&segmentTxId=9", 404),
            ("jid=ns1&segmentTxId=1&storageInfo=-67:7:0:CID-other", 403),
            ("jid=ns1&segmentTxId=1&storageInfo=-67:8:0:CID-x", 403),
            ("jid=ns1", 500),
            ("jid=../../x&segmentTxId=1", 500),
            ("jid=other&segmentTxId=1", 404),
        ):
            assert (await nodes.get(query))[0] == expected, query


async def test_a_segment_in_progress_is_sent_as_far_as_the_manifest_says_though_nothing_is_at_hand(
    tmp_path: Path,
) -> None:
    """Its recovery copies all of it, beyond what is known to be committed."""
    nothing_cached = replace(CONFIG, edits_cache_bytes_max=1)
    async with (
        on_a_node(tmp_path) as nodes,
        served_node("jn2", nodes.cluster.store, nodes.ledgers, nothing_cached) as node,
    ):
        writer = nodes.name_node(node)
        await writer.format(force=False)
        await writer.become_writer()
        await writer.start(1)
        for txid in range(1, 4):
            await writer.write(1, txid, txid, committed=max(txid - 2, 0))
            (log,) = (await writer.manifest(in_progress_ok=True)).logs
            _, _, body = await nodes.get("jid=ns1&segmentTxId=1", node)
            batch = SegmentCutter(1, "").feed(body)
            assert batch is not None and batch.last_txid == log.end_txid == txid


async def test_a_purged_segment_is_gone(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        node = await active(nodes)
        await node.ask("purgeLogs", min_txid_to_keep=3)
        assert (await nodes.get("jid=ns1&segmentTxId=1"))[0] == 410


async def test_reads_are_answered_beside_a_call_that_changes_the_journal(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        node = await active(nodes)
        journal = nodes.node.node.journal("ns1")
        async with journal._turns.next():
            waiting = asyncio.ensure_future(node.finalize(3, 4))
            reader = nodes.name_node()
            assert len((await reader.manifest(in_progress_ok=True)).logs) == 2
            assert (await nodes.get("jid=ns1&segmentTxId=3"))[0] == 200
            edits_of_3 = await reader.ask("getJournaledEdits", since_txid=3, max_txns=10)
            assert edits_of_3.txn_count == 2
            assert (await reader.ask("isFormatted")).is_formatted
            assert not waiting.done()
        await waiting


async def test_a_wrong_cluster_and_a_bad_journal_id_get_hadoops_errors(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        node = nodes.name_node()
        await node.format(force=False)
        other = pb.StorageInfo(layout_version=-67 & 0xFFFFFFFF, namespace_id=7, cluster_id="CID-o", c_time=0)
        with pytest.raises(JournalError, match="Incompatible clusterID for journal"):
            await node.ask("newEpoch", namespace=namespace(other), epoch=1)
        for name in ("", "../x", ".hidden", "a/b"):
            with pytest.raises(BadRequest, match="bad journal id"):
                await node.ask("isFormatted", journal_id=pb.JournalId(identifier=name))
