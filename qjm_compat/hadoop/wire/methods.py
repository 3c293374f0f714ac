"""The RPC methods a JournalNode serves: how each becomes a request, and its answer a reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message

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
    GetStorageInfo,
    Heartbeat,
    IsFormatted,
    NewEpoch,
    PrepareRecovery,
    PurgeLogs,
    Request,
    SendEdits,
    StartLogSegment,
)
from ..errors import BadMessage, NoSuchMethod, NoSuchProtocol
from . import hadoop_pb2 as pb
from . import messages as m
from .rpc import INTER_PROTOCOL, JOURNAL_PROTOCOL, parse

TXNS_MAX = 100_000
"""Most edits of one answer of getJournaledEdits, whatever is asked for; their bytes are bounded besides."""

NOTHING = pb.Nothing()


@dataclass(frozen=True, slots=True)
class Place:
    """The address of this JournalNode's pages, for Hadoop's replies."""

    url: str
    port: int


@dataclass(frozen=True, slots=True)
class Method:
    """`request` makes our request from the message and the client id; `reply` makes Hadoop's reply from the answer.

    A NameNode has one client id for all its calls, and upgrades and discards without naming its epoch.
    """

    message: Callable[[], Message]
    request: Callable[[Any, bytes], Request[Any]]
    reply: Callable[[Any, Place], Message] = lambda *_: NOTHING
    changes: bool = True

    def parse(self, data: bytes) -> Any:
        """Decodes the message. Raises BadMessage."""
        message = self.message()
        try:
            parse(message, data)
        except DecodeError as error:
            raise BadMessage(str(error)) from error
        return message


def _reading(message: Callable[[], Message], request: Any, reply: Any) -> Method:
    return Method(message, request, reply, changes=False)


def _manifest(r: Any, place: Place) -> Message:
    return pb.ManifestReply(manifest=m.manifest_message(r), http_port=place.port, from_url=place.url)


def _new_epoch(r: Any, _: Place) -> Message:
    return pb.NewEpochReply(last_segment_txid=r.last_segment_txid)


_MANIFEST = _reading(
    pb.GetManifest, lambda q, _: GetEditLogManifest(m.signed_64(q.since_txid), q.in_progress_ok), _manifest
)

_JOURNAL_METHODS = {
    "isFormatted": _reading(
        pb.OfJournal, lambda *_: IsFormatted(), lambda r, _: pb.IsFormattedReply(is_formatted=r)
    ),
    "getJournalCTime": _reading(
        pb.OfJournal, lambda *_: GetJournalCTime(), lambda r, _: pb.CTimeReply(c_time=r)
    ),
    "getJournalState": _reading(
        pb.OfJournal,
        lambda *_: GetJournalState(),
        lambda r, place: pb.JournalStateReply(
            last_promised_epoch=r.last_promised_epoch, http_port=place.port, from_url=place.url
        ),
    ),
    "getEditLogManifest": _MANIFEST,
    "getJournaledEdits": _reading(
        pb.GetJournaledEdits,
        lambda q, _: GetJournaledEdits(
            m.signed_64(q.since_txid), min(q.max_txns, TXNS_MAX), cached_only=not q.from_ledgers
        ),
        lambda r, _: m.edits_message(r),
    ),
    "canRollBack": _reading(
        pb.CanRollBack,
        lambda q, _: CanRollBack(q.target_layout_version),
        lambda r, _: pb.CanRollBackReply(can_roll_back=r),
    ),
    "doPreUpgrade": Method(pb.OfJournal, lambda _, client_id: DoPreUpgrade(client_id)),
    "doUpgrade": Method(pb.DoUpgrade, lambda q, _: DoUpgrade(m.storage_of(q.storage))),
    "doFinalize": Method(pb.OfJournal, lambda *_: DoFinalize()),
    "doRollback": Method(pb.OfJournal, lambda _, client_id: DoRollback(client_id)),
    "discardSegments": Method(
        pb.DiscardSegments, lambda q, client_id: DiscardSegments(m.signed_64(q.start_txid), client_id)
    ),
    "format": Method(
        pb.Format,
        # NameNodes of 2.7 send no force flag: their format always wipes.
        lambda q, _: Format(m.namespace_of(q.namespace), force=not q.HasField("force") or q.force),
    ),
    "newEpoch": Method(
        pb.NewEpoch,
        lambda q, client_id: NewEpoch(m.namespace_of(q.namespace), m.signed_64(q.epoch), client_id),
        _new_epoch,
    ),
    "startLogSegment": Method(
        pb.StartLogSegment,
        lambda q, _: StartLogSegment(
            info=m.info_of(q.info),
            txid=m.signed_64(q.txid),
            layout_version=q.layout_version if q.HasField("layout_version") else None,
        ),
    ),
    "journal": Method(
        pb.Journal,
        lambda q, _: SendEdits(
            info=m.info_of(q.info),
            segment_txid=m.signed_64(q.segment_txid),
            first_txid=m.signed_64(q.first_txid),
            num_txns=q.num_txns,
            records=q.records,
        ),
    ),
    "heartbeat": Method(pb.Heartbeat, lambda q, _: Heartbeat(info=m.info_of(q.info))),
    "finalizeLogSegment": Method(
        pb.FinalizeLogSegment,
        lambda q, _: FinalizeLogSegment(
            info=m.info_of(q.info), start_txid=m.signed_64(q.start_txid), end_txid=m.signed_64(q.end_txid)
        ),
    ),
    "purgeLogs": Method(
        pb.PurgeLogs,
        lambda q, _: PurgeLogs(info=m.info_of(q.info), min_txid_to_keep=m.signed_64(q.min_txid_to_keep)),
    ),
    "prepareRecovery": Method(
        pb.PrepareRecovery,
        lambda q, _: PrepareRecovery(info=m.info_of(q.info), segment_txid=m.signed_64(q.segment_txid)),
        lambda r, _: m.prepare_message(r),
    ),
    "acceptRecovery": Method(
        pb.AcceptRecovery,
        lambda q, _: AcceptRecovery(info=m.info_of(q.info), state=m.segment_of(q.state), source=q.from_url),
    ),
}

METHODS = {
    JOURNAL_PROTOCOL: _JOURNAL_METHODS,
    INTER_PROTOCOL: {
        "getEditLogManifestFromJournal": _MANIFEST,
        "getStorageInfo": _reading(
            pb.OfJournal, lambda *_: GetStorageInfo(), lambda r, _: m.storage_message(r)
        ),
    },
}


def method_named(protocol: str, name: str) -> Method:
    """Looks up a method. Raises NoSuchProtocol, NoSuchMethod."""
    methods = METHODS.get(protocol)
    if methods is None:
        raise NoSuchProtocol(f"Unknown protocol: {protocol}")
    method = methods.get(name)
    if method is None:
        raise NoSuchMethod(f"Unknown method {name} called on {protocol} protocol.")
    return method
