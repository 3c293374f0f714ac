"""What a NameNode is told when a call fails: Hadoop's class of the error, and the words that operators search for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.rpc import DETAIL_APPLICATION, ERROR
from tests.qjm_compat.acceptor.one_writer import edits
from tests.qjm_compat.hadoop.nodes import (
    JID,
    NameNode,
    Nodes,
    active,
    call_frame,
    namespace,
    next_header,
    on_a_node,
    stranger,
)

IO = "java.io.IOException"
ARGUMENT = "java.lang.IllegalArgumentException"
STATE = "java.lang.IllegalStateException"
ASSERTION = "java.lang.AssertionError"
NOT_FORMATTED = "org.apache.hadoop.hdfs.qjournal.protocol.JournalNotFormattedException"
OUT_OF_SYNC = "org.apache.hadoop.hdfs.qjournal.protocol.JournalOutOfSyncException"
NOT_EMPTY = "org.apache.hadoop.hdfs.server.common.InconsistentFSStateException"
NEWER = "org.apache.hadoop.hdfs.qjournal.server.NewerTxnIdException"
MISS = "org.apache.hadoop.hdfs.qjournal.server.JournaledEditsCache$CacheMissException"

Failing = tuple[str, Any, str, str]


async def check(nodes: Nodes, method: str, message: Any, java_class: str, words: str) -> None:
    async with stranger(nodes, call_frame(method, message)) as (reader, _):
        header = await next_header(reader)
    said = (header.status, header.error_detail, header.exception_class)
    assert said == (ERROR, DETAIL_APPLICATION, java_class), f"{method}: {header}"
    assert words in header.error_message, method


def of_another(**fields: Any) -> pb.NamespaceInfo:
    """The namespace with another storage info."""
    whole = namespace()
    whole.storage.MergeFrom(pb.StorageInfo(**fields))
    return whole


def accept(info: pb.RequestInfo, start: int, end: int) -> pb.AcceptRecovery:
    state = pb.SegmentState(start_txid=start, end_txid=end, in_progress=True)
    url = f"http://127.0.0.1:1/getJournal?jid=ns1&segmentTxId={start}"
    return pb.AcceptRecovery(info=info, state=state, from_url=url)


def batch(info: pb.RequestInfo, segment: int, first: int) -> pb.Journal:
    records = edits(first, first, info.epoch)
    return pb.Journal(info=info, segment_txid=segment, first_txid=first, num_txns=1, records=records)


def since(txid: int) -> pb.GetJournaledEdits:
    return pb.GetJournaledEdits(journal_id=JID, since_txid=txid, max_txns=10)


def of_no_writer() -> list[Failing]:
    """Calls without an epoch, on the journal of `active`."""
    bad, unknown = pb.JournalId(identifier="../x"), pb.JournalId(identifier="ns2")
    epoch: dict[str, Any] = {"journal_id": JID, "epoch": 9}
    return [
        ("isFormatted", pb.OfJournal(journal_id=bad), ARGUMENT, "bad journal id: ../x"),
        (
            "getJournalState",
            pb.OfJournal(journal_id=unknown),
            NOT_FORMATTED,
            "not formatted ; journal id: ns2",
        ),
        (
            "getEditLogManifest",
            pb.GetManifest(journal_id=unknown, since_txid=1),
            NOT_FORMATTED,
            "not formatted ; journal id: ns2",
        ),
        (
            "format",
            pb.Format(journal_id=JID, namespace=namespace(), force=False),
            NOT_EMPTY,
            "Can't format the storage directory because the current directory is not empty",
        ),
        (
            "format",
            pb.Format(journal_id=unknown, namespace=of_another(namespace_id=0)),
            STATE,
            "can't format with uninitialized namespace info",
        ),
        (
            "newEpoch",
            pb.NewEpoch(journal_id=JID, epoch=1, namespace=namespace()),
            IO,
            "Proposed epoch 1 <= last promise 1 ; journal id: ns1",
        ),
        (
            "newEpoch",
            pb.NewEpoch(namespace=of_another(namespace_id=8), **epoch),
            IO,
            "Incompatible namespaceID for journal",
        ),
        (
            "newEpoch",
            pb.NewEpoch(namespace=of_another(cluster_id="CID-y"), **epoch),
            IO,
            "Incompatible clusterID for journal",
        ),
        (
            "getJournaledEdits",
            since(9),
            NEWER,
            "Highest txn ID available in the journal is 4, but requested txns starting at 9.",
        ),
        (
            "discardSegments",
            pb.DiscardSegments(journal_id=JID, start_txid=2),
            STATE,
            "Cannot discard segments",
        ),
        (
            "doUpgrade",
            pb.DoUpgrade(journal_id=JID, storage=namespace().storage),
            STATE,
            "doPreUpgrade comes first",
        ),
        ("doRollback", pb.OfJournal(journal_id=JID), STATE, "no previous state"),
    ]


def of_the_writer(node: NameNode) -> list[Failing]:
    """Calls of the writer of `active`, in order: each leaves the journal as the next one finds it."""
    old = pb.RequestInfo(journal_id=JID, epoch=1, serial=0)
    finalize = pb.FinalizeLogSegment
    return [
        ("journal", batch(old, 3, 5), OUT_OF_SYNC, "was not higher than prior highest IPC serial"),
        ("journal", batch(node.info(2), 3, 5), ARGUMENT, "move committed txid backward from 3 to 2"),
        ("journal", batch(node.info(), 3, 9), OUT_OF_SYNC, "Can't write txid 9 expecting nextTxId=5"),
        (
            "journal",
            batch(node.info(), 1, 5),
            OUT_OF_SYNC,
            "it thinks it is writing segment 1 but current segment is 3",
        ),
        ("journal", batch(node.info(), 3, 5), OUT_OF_SYNC, "Can't write, no segment open"),
        (
            "finalizeLogSegment",
            finalize(info=node.info(), start_txid=1, end_txid=3),
            ARGUMENT,
            "Trying to re-finalize already finalized log",
        ),
        (
            "finalizeLogSegment",
            finalize(info=node.info(), start_txid=77, end_txid=78),
            OUT_OF_SYNC,
            "No log file to finalize at transaction ID 77",
        ),
        (
            "startLogSegment",
            pb.StartLogSegment(info=node.info(), txid=1, layout_version=-67),
            STATE,
            "Already have a finalized segment",
        ),
        ("acceptRecovery", accept(node.info(), 5, 4), ARGUMENT, "bad recovery state for segment"),
        ("acceptRecovery", accept(node.info(4), 3, 3), ASSERTION, "would discard already-committed txn"),
        (
            "acceptRecovery",
            accept(node.info(), 3, 9),
            ARGUMENT,
            "is no JournalNode that this one copies from",
        ),
    ]


async def test_calls_without_an_epoch_fail_with_hadoops_classes(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        for failing in of_no_writer():
            await check(nodes, *failing)


async def test_calls_of_the_writer_fail_with_hadoops_classes(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        writer = await active(nodes)
        for failing in of_the_writer(writer):
            await check(nodes, *failing)


async def test_a_writer_that_was_overtaken_is_told_so_as_hadoop_tells_it(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        old = await active(nodes)
        new = nodes.name_node()
        await new.become_writer()
        less = "IPC's epoch 1 is less than the last promised epoch 2 ; journal id: ns1"
        await check(nodes, "journal", batch(old.info(), 3, 5), IO, less)
        await check(nodes, "heartbeat", pb.Heartbeat(info=old.info()), IO, less)
        not_yet = "IPC's epoch 2 is not the current writer epoch  1 ; journal id: ns1"
        await check(nodes, "journal", batch(new.info(), 3, 5), IO, not_yet)


async def test_a_reader_that_asks_for_what_is_not_cached_is_told_so_as_hadoop_tells_it(
    tmp_path: Path,
) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        async with nodes.another("jn1", []) as restarted:
            there = Nodes(nodes.cluster, nodes.ledgers, restarted)
            await check(there, "getJournaledEdits", since(1), MISS, "not cached")
