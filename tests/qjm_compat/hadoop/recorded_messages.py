"""The calls of a recording as messages, and answers as a recording has them; see test_recorded_calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from tests.qjm_compat.acceptor.one_writer import edits

NAMESPACE_ID = 7
LINE = re.compile(
    r"(?P<others>\* the others get )?(?P<method>\w+) (?P<fields>\{.*?\}) e=(?P<epoch>\d*) s=(?P<serial>\d*) "
    r"c=(?P<committed>\d*) ns=(?P<service>\w*) -> (?P<answer>.*?)(?:   x(?P<times>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One line. `answer` is JSON, "-" for an empty one, or the class and the words of an error."""

    method: str
    fields: dict[str, Any]
    epoch: int | None
    serial: int
    committed: int | None
    service: str
    answer: str
    only_others: bool


@dataclass
class Facts:
    """What stands for the placeholders of a recording. `epochs` are ours by those that were recorded."""

    source_address: str
    c_time: int = 0
    cluster_id: str = ""
    epochs: dict[int, int] = field(default_factory=dict)
    edits: dict[int, bytes] = field(default_factory=dict)

    def recorded(self, match: re.Match[str]) -> Recorded:
        numbers = match["fields"].replace(": N", f": {NAMESPACE_ID}").replace(": T", f": {self.c_time}")
        return Recorded(
            match["method"],
            json.loads(numbers),
            int(match["epoch"]) if match["epoch"] else None,
            int(match["serial"] or 0),
            int(match["committed"]) if match["committed"] else None,
            match["service"],
            match["answer"].replace(": T", f": {self.c_time}"),
            match["others"] is not None,
        )

    def jid(self) -> pb.JournalId:
        return pb.JournalId(identifier="ns1")

    def info(self, line: Recorded) -> pb.RequestInfo:
        assert line.epoch is not None
        info = pb.RequestInfo(journal_id=self.jid(), epoch=self.epochs[line.epoch], serial=line.serial)
        if line.committed is not None:
            info.committed_txid = line.committed
        if line.service:
            info.name_service_id = line.service
        return info

    def namespace(self, line: Recorded) -> pb.NamespaceInfo:
        storage = storage_info(line.fields["nsInfo"]["st"])
        self.cluster_id = storage.cluster_id
        return pb.NamespaceInfo(
            build_version="b", unused=0, block_pool_id="BP-1", storage=storage, software_version="3.4.1"
        )

    def records(self, line: Recorded) -> bytes:
        assert line.epoch is not None
        first, count = line.fields["first"], line.fields["n"]
        for txid in range(first, first + count):
            self.edits.setdefault(txid, b"")
            self.edits[txid] = edits(txid, txid, self.epochs[line.epoch])
        return b"".join(self.edits[txid] for txid in range(first, first + count))

    def source(self, line: Recorded) -> str:
        url: str = line.fields["url"]
        return url.replace("HOST:PORT", self.source_address).partition("&storageInfo")[0]


def storage_info(found: dict[str, Any]) -> pb.StorageInfo:
    return pb.StorageInfo(
        layout_version=found["layoutVersion"] & 0xFFFFFFFF,
        namespace_id=found["nsId"],
        cluster_id=found["clusterId"],
        c_time=found["cTime"],
    )


def manifest(found: pb.Manifest) -> dict[str, Any]:
    logs = [f"{log.start_txid}-{log.end_txid}{'*' * log.in_progress}" for log in found.logs]
    return {"committed": found.committed_txid} | ({"logs": logs} if logs else {})


def prepared(found: pb.PrepareReply) -> dict[str, Any]:
    segment = found.segment
    told = {"start": segment.start_txid, "end": segment.end_txid, "inProgress": int(segment.in_progress)}
    return {"seg": told, "lastWriter": found.last_writer_epoch, "committed": found.last_committed_txid}


def _of_journal(facts: Facts, line: Recorded) -> pb.OfJournal:
    message = pb.OfJournal(journal_id=facts.jid())
    if line.service:
        message.name_service_id = line.service
    return message


def _manifest_wanted(facts: Facts, line: Recorded) -> pb.GetManifest:
    since, in_progress = line.fields["since"], bool(line.fields["inProgressOk"])
    return pb.GetManifest(
        journal_id=facts.jid(), since_txid=since, in_progress_ok=in_progress, name_service_id=line.service
    )


def _accepted(facts: Facts, line: Recorded) -> pb.AcceptRecovery:
    state = line.fields["state"]
    segment = pb.SegmentState(
        start_txid=state["start"], end_txid=state["end"], in_progress=bool(state["inProgress"])
    )
    return pb.AcceptRecovery(info=facts.info(line), state=segment, from_url=facts.source(line))


def _rolling_back(facts: Facts, line: Recorded) -> pb.CanRollBack:
    return pb.CanRollBack(
        journal_id=facts.jid(),
        storage=storage_info(line.fields["storage"]),
        previous=storage_info(line.fields["prev"]),
        target_layout_version=line.fields["target"],
        name_service_id=line.service,
    )


MESSAGES: dict[str, tuple[Callable[[Facts, Recorded], Any], Any]] = {
    "isFormatted": (_of_journal, pb.IsFormattedReply),
    "getJournalState": (_of_journal, pb.JournalStateReply),
    "getJournalCTime": (_of_journal, pb.CTimeReply),
    "doPreUpgrade": (_of_journal, pb.Nothing),
    "doFinalize": (_of_journal, pb.Nothing),
    "doRollback": (_of_journal, pb.Nothing),
    "canRollBack": (_rolling_back, pb.CanRollBackReply),
    "doUpgrade": (
        lambda r, q: pb.DoUpgrade(journal_id=r.jid(), storage=storage_info(q.fields["sInfo"])),
        pb.Nothing,
    ),
    "format": (
        lambda r, q: pb.Format(
            journal_id=r.jid(),
            namespace=r.namespace(q),
            name_service_id=q.service,
            force=bool(q.fields["force"]),
        ),
        pb.Nothing,
    ),
    "newEpoch": (
        lambda r, q: pb.NewEpoch(
            journal_id=r.jid(),
            namespace=r.namespace(q),
            epoch=r.epochs[q.fields["epoch"]],
            name_service_id=q.service,
        ),
        pb.NewEpochReply,
    ),
    "startLogSegment": (
        lambda r, q: pb.StartLogSegment(info=r.info(q), txid=q.fields["txid"], layout_version=q.fields["lv"]),
        pb.Nothing,
    ),
    "journal": (
        lambda r, q: pb.Journal(
            info=r.info(q),
            first_txid=q.fields["first"],
            num_txns=q.fields["n"],
            records=r.records(q),
            segment_txid=q.fields["segment"],
            name_service_id=q.service,
        ),
        pb.Nothing,
    ),
    "finalizeLogSegment": (
        lambda r, q: pb.FinalizeLogSegment(
            info=r.info(q), start_txid=q.fields["start"], end_txid=q.fields["end"]
        ),
        pb.Nothing,
    ),
    "prepareRecovery": (
        lambda r, q: pb.PrepareRecovery(info=r.info(q), segment_txid=q.fields["segment"]),
        pb.PrepareReply,
    ),
    "acceptRecovery": (_accepted, pb.Nothing),
    "getEditLogManifest": (_manifest_wanted, pb.ManifestReply),
    "getEditLogManifestFromJournal": (_manifest_wanted, pb.ManifestReply),
    "getJournaledEdits": (
        lambda r, q: pb.GetJournaledEdits(
            journal_id=r.jid(),
            since_txid=q.fields["since"],
            max_txns=q.fields["max"],
            name_service_id=q.service,
        ),
        pb.JournaledEditsReply,
    ),
}
