"""What a NameNode is told when a call fails: Hadoop's class of the error, and the words that operators search for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import DETAIL_APPLICATION, ERROR
from tests.qjm_compat.acceptor.one_writer import edits
from tests.qjm_compat.hadoop.nodes import (
    JID,
    NameNode,
    Nodes,
    active,
    call_frame,
    message,
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

Failing = tuple[str, Message, str, str]


async def check(nodes: Nodes, method: str, asked: Message, java_class: str, words: str) -> None:
    async with stranger(nodes, call_frame(method, asked)) as (reader, _):
        header = await next_header(reader)
    said = (header.status, header.error_detail, header.exception_class)
    assert said == (ERROR, DETAIL_APPLICATION, java_class), f"{method}: {header}"
    assert words in header.error_message, method


def failing(method: str, java_class: str, words: str, **fields: Any) -> Failing:
    return method, message(method, **fields), java_class, words


def of_another(**fields: Any) -> pb.NamespaceInfo:
    """The namespace with another storage info."""
    whole = namespace()
    whole.storage.MergeFrom(pb.StorageInfo(**fields))
    return whole


def accept(info: pb.RequestInfo, start: int, end: int) -> dict[str, Any]:
    state = pb.SegmentState(start_txid=start, end_txid=end, in_progress=True)
    return {
        "info": info,
        "state": state,
        "from_url": f"http://127.0.0.1:1/getJournal?jid=ns1&segmentTxId={start}",
    }


def batch(info: pb.RequestInfo, segment: int, first: int) -> dict[str, Any]:
    records = edits(first, first, info.epoch)
    return {"info": info, "segment_txid": segment, "first_txid": first, "num_txns": 1, "records": records}


def since(txid: int) -> dict[str, Any]:
    return {"since_txid": txid, "max_txns": 10}


def of_no_writer() -> list[Failing]:
    """Calls without an epoch, on the journal of `active`."""
    bad, unknown = pb.JournalId(identifier="../x"), pb.JournalId(identifier="ns2")
    no_ns2 = "not formatted ; journal id: ns2"
    not_empty = "Can't format the storage directory because the current directory is not empty"
    nobody, of_8, of_y = (
        of_another(namespace_id=0),
        of_another(namespace_id=8),
        of_another(cluster_id="CID-y"),
    )
    stale = "Proposed epoch 1 <= last promise 1 ; journal id: ns1"
    newer = "Highest txn ID available in the journal is 4, but requested txns starting at 9."
    uninitialized = "can't format with uninitialized namespace info"
    return [
        failing("isFormatted", ARGUMENT, "bad journal id: ../x", journal_id=bad),
        failing("getJournalState", NOT_FORMATTED, no_ns2, journal_id=unknown),
        failing("getEditLogManifest", NOT_FORMATTED, no_ns2, journal_id=unknown, since_txid=1),
        failing("format", NOT_EMPTY, not_empty, namespace=namespace(), force=False),
        failing("format", STATE, uninitialized, journal_id=unknown, namespace=nobody),
        failing("newEpoch", IO, stale, epoch=1, namespace=namespace()),
        failing("newEpoch", IO, "Incompatible namespaceID for journal", epoch=9, namespace=of_8),
        failing("newEpoch", IO, "Incompatible clusterID for journal", epoch=9, namespace=of_y),
        failing("getJournaledEdits", NEWER, newer, **since(9)),
        failing("discardSegments", STATE, "Cannot discard segments", start_txid=2),
        failing("doUpgrade", STATE, "run doPreUpgrade first", storage=namespace().storage),
        failing("doRollback", STATE, "no previous state"),
    ]


def of_the_writer(node: NameNode) -> list[Failing]:
    """Calls of the writer of `active`, in order: each leaves the journal as the next one finds it."""
    old, info = pb.RequestInfo(journal_id=JID, epoch=1, serial=0), node.info
    ended, none_there = (
        "Trying to re-finalize already finalized log",
        "No log file to finalize at transaction ID 77",
    )
    of_another_segment = "it thinks it is writing segment 1 but current segment is 3"
    no_peer = "is not a JournalNode that this one copies from"
    return [
        failing("journal", OUT_OF_SYNC, "was not higher than prior highest IPC serial", **batch(old, 3, 5)),
        failing("journal", ARGUMENT, "move committed txid backward from 3 to 2", **batch(info(2), 3, 5)),
        failing("journal", OUT_OF_SYNC, "Can't write txid 9 expecting nextTxId=5", **batch(info(), 3, 9)),
        failing("journal", OUT_OF_SYNC, of_another_segment, **batch(info(), 1, 5)),
        failing("journal", OUT_OF_SYNC, "Can't write, no segment open", **batch(info(), 3, 5)),
        failing("finalizeLogSegment", ARGUMENT, ended, info=info(), start_txid=1, end_txid=3),
        failing("finalizeLogSegment", OUT_OF_SYNC, none_there, info=info(), start_txid=77, end_txid=78),
        failing(
            "startLogSegment",
            STATE,
            "Already have a finalized segment",
            info=info(),
            txid=1,
            layout_version=-67,
        ),
        failing("acceptRecovery", ARGUMENT, "bad recovery state for segment", **accept(info(), 5, 4)),
        failing("acceptRecovery", ASSERTION, "would discard already-committed txn", **accept(info(4), 3, 3)),
        failing("acceptRecovery", ARGUMENT, no_peer, **accept(info(), 3, 9)),
    ]


async def test_calls_without_an_epoch_fail_with_hadoops_classes(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        for one in of_no_writer():
            await check(nodes, *one)


async def test_calls_of_the_writer_fail_with_hadoops_classes(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        writer = await active(nodes)
        for one in of_the_writer(writer):
            await check(nodes, *one)


async def test_a_writer_that_was_overtaken_is_told_so_as_hadoop_tells_it(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        old = await active(nodes)
        new = nodes.name_node()
        await new.become_writer()
        less = "IPC's epoch 1 is less than the last promised epoch 2 ; journal id: ns1"
        await check(nodes, *failing("journal", IO, less, **batch(old.info(), 3, 5)))
        await check(nodes, *failing("heartbeat", IO, less, info=old.info()))
        not_yet = "IPC's epoch 2 is not the current writer epoch  1 ; journal id: ns1"
        await check(nodes, *failing("journal", IO, not_yet, **batch(new.info(), 3, 5)))


async def test_a_reader_that_asks_for_what_is_not_cached_is_told_so_as_hadoop_tells_it(
    tmp_path: Path,
) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        async with nodes.another("jn1", []) as restarted:
            there = Nodes(nodes.cluster, nodes.ledgers, restarted)
            await check(there, *failing("getJournaledEdits", MISS, "not cached", **since(1)))
