"""Maps our requests to Hadoop's RPC methods, messages and replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from ...requests import (
    AcceptRecovery,
    CanRollBack,
    DiscardSegments,
    DoFinalize,
    DoPreUpgrade,
    DoRollback,
    DoUpgrade,
    FinalizeLogSegment,
    Format,
    GetEditLogManifest,
    GetJournalCTime,
    GetJournaledEdits,
    GetJournalState,
    Heartbeat,
    IsFormatted,
    JournalStateReply,
    NewEpoch,
    NewEpochReply,
    PrepareRecovery,
    PurgeLogs,
    Request,
    SendEdits,
    StartLogSegment,
    WriterRequest,
)
from ..wire import hadoop_pb2 as pb
from ..wire import messages as m


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One RPC method. `fields` are the message's beside the journal or the writer, which every message has first."""

    method: str
    kind: type[Message]
    fields: Callable[[Any], dict[str, Any]]
    reply: type[Message] = pb.Nothing
    answer: Callable[[Any], Any] = lambda _: None

    def message(self, journal_id: str, request: Request[Any]) -> Any:
        if isinstance(request, WriterRequest):
            return self.kind(info=m.info_message(journal_id, request.info), **self.fields(request))
        return self.kind(journal_id=pb.JournalId(identifier=journal_id), **self.fields(request))


def _none(_: Any) -> dict[str, Any]:
    return {}


CALLS: dict[type[Request[Any]], RemoteCall] = {
    IsFormatted: RemoteCall(
        "isFormatted", pb.OfJournal, _none, pb.IsFormattedReply, lambda r: r.is_formatted
    ),
    GetJournalCTime: RemoteCall("getJournalCTime", pb.OfJournal, _none, pb.CTimeReply, lambda r: r.c_time),
    GetJournalState: RemoteCall(
        "getJournalState",
        pb.OfJournal,
        _none,
        pb.JournalStateReply,
        lambda r: JournalStateReply(r.last_promised_epoch),
    ),
    DoPreUpgrade: RemoteCall("doPreUpgrade", pb.OfJournal, _none),
    DoUpgrade: RemoteCall("doUpgrade", pb.DoUpgrade, lambda q: {"storage": m.storage_message(q.storage)}),
    DoFinalize: RemoteCall("doFinalize", pb.OfJournal, _none),
    DoRollback: RemoteCall("doRollback", pb.OfJournal, _none),
    CanRollBack: RemoteCall(
        "canRollBack",
        pb.CanRollBack,
        lambda q: {
            "storage": pb.StorageInfo(layout_version=0, namespace_id=0, cluster_id="", c_time=0),
            "previous": pb.StorageInfo(
                layout_version=q.target_layout_version & 0xFFFFFFFF, namespace_id=0, cluster_id="", c_time=0
            ),
            "target_layout_version": q.target_layout_version,
        },
        pb.CanRollBackReply,
        lambda r: r.can_roll_back,
    ),
    DiscardSegments: RemoteCall(
        "discardSegments", pb.DiscardSegments, lambda q: {"start_txid": q.start_txid}
    ),
    Format: RemoteCall(
        "format", pb.Format, lambda q: {"namespace": m.namespace_message(q.namespace), "force": q.force}
    ),
    NewEpoch: RemoteCall(
        "newEpoch",
        pb.NewEpoch,
        lambda q: {"namespace": m.namespace_message(q.namespace), "epoch": q.epoch},
        pb.NewEpochReply,
        lambda r: NewEpochReply(m.txid_of(r, "last_segment_txid")),
    ),
    StartLogSegment: RemoteCall(
        "startLogSegment",
        pb.StartLogSegment,
        lambda q: {"txid": q.txid, "layout_version": q.layout_version},
    ),
    SendEdits: RemoteCall(
        "journal",
        pb.Journal,
        lambda q: {
            "segment_txid": q.segment_txid,
            "first_txid": q.first_txid,
            "num_txns": q.num_txns,
            "records": bytes(q.records),
        },
    ),
    Heartbeat: RemoteCall("heartbeat", pb.Heartbeat, _none),
    FinalizeLogSegment: RemoteCall(
        "finalizeLogSegment",
        pb.FinalizeLogSegment,
        lambda q: {"start_txid": q.start_txid, "end_txid": q.end_txid},
    ),
    PurgeLogs: RemoteCall("purgeLogs", pb.PurgeLogs, lambda q: {"min_txid_to_keep": q.min_txid_to_keep}),
    GetEditLogManifest: RemoteCall(
        "getEditLogManifest",
        pb.GetManifest,
        lambda q: {"since_txid": q.since_txid, "in_progress_ok": q.in_progress_ok},
        pb.ManifestReply,
        lambda r: m.manifest_of(r.manifest),
    ),
    GetJournaledEdits: RemoteCall(
        "getJournaledEdits",
        pb.GetJournaledEdits,
        lambda q: {"since_txid": q.since_txid, "max_txns": q.max_txns, "from_ledgers": not q.cached_only},
        pb.JournaledEditsReply,
    ),
    PrepareRecovery: RemoteCall(
        "prepareRecovery",
        pb.PrepareRecovery,
        lambda q: {"segment_txid": q.segment_txid},
        pb.PrepareReply,
        m.prepare_of,
    ),
    AcceptRecovery: RemoteCall(
        "acceptRecovery",
        pb.AcceptRecovery,
        lambda q: {"state": m.segment_message(q.state), "from_url": ""},
    ),
}
