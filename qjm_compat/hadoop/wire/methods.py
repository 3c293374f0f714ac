"""The RPC methods of JournalNodes: the request that each method carries, and its messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from google.protobuf.message import DecodeError, Message

from metadata.records.journal_record import JournalStorage

from ... import requests
from ..errors import BadRpcMessage, NoSuchMethod, NoSuchProtocol
from . import hadoop_pb2 as pb
from .hadoop_rpc import INTER_PROTOCOL, JOURNAL_PROTOCOL, parse
from .qjournal_messages import Decoder, decoded, decoder_of, fields_of

NOTHING = pb.Nothing()


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The address of this JournalNode's HTTP pages, for Hadoop's replies."""

    url: str
    port: int


@dataclass(frozen=True)
class Method:
    """One method. `answer`: the field of the reply that contains the answer, or the type of the complete reply; None if
    there is no answer."""

    name: str
    kind: type[requests.Request[Any]]
    message: type[Message]
    reply: type[Message] = pb.Nothing
    answer: str | type | None = None
    changes: bool = True

    # --- used by a JournalNode -------------------------------------------------------------------------

    def parse(self, data: bytes) -> Any:
        """Decodes the message. Raises BadRpcMessage."""
        message = self.message()
        try:
            parse(message, data)
        except DecodeError as error:
            raise BadRpcMessage(str(error)) from error
        return message

    def request_of(self, message: Message, client_id: bytes) -> requests.Request[Any]:
        """Decodes the request in the message. The client id becomes the `owner`, because a NameNode uses one client id
        for all its calls, and does not send its epoch in upgrades and discards."""
        request: requests.Request[Any] = self._decode(
            message, {"owner": client_id} if self._has_owner else {}
        )
        return request

    @cached_property
    def _decode(self) -> Decoder:
        return decoder_of(self.kind, self.message)  # type: ignore[arg-type]  # classes are hashable

    @cached_property
    def _has_owner(self) -> bool:
        return "owner" in self.kind.__slots__

    def reply_to(self, answer: Any, place: NodeAddress) -> Message:
        if self.answer is None:
            return NOTHING
        content = SimpleNamespace(**{self.answer: answer}) if isinstance(self.answer, str) else answer
        fields = fields_of(content, self.reply)
        if "http_port" in self.reply.DESCRIPTOR.fields_by_name:
            fields |= {"http_port": place.port, "from_url": place.url}
        return self.reply(**fields)

    # --- used by a client -----------------------------------------------------------------------------

    def message_of(self, journal_id: str, request: requests.Request[Any]) -> Any:
        """Encodes the message. Raises ValueError if a number does not fit."""
        fields = fields_of(request, self.message)
        named = fields["info"] if isinstance(request, requests.WriterRequest) else fields
        named["journal_id"] = {"identifier": journal_id}
        return self.message(**fields)

    def answer_of(self, reply: Message) -> Any:
        if not isinstance(self.answer, str):
            return None if self.answer is None else decoded(self.answer, reply)
        found = getattr(reply, self.answer)
        return decoded(requests.Manifest, found) if isinstance(found, Message) else found


_READING = (
    Method("isFormatted", requests.IsFormatted, pb.OfJournal, pb.IsFormattedReply, "is_formatted", False),
    Method("getJournalCTime", requests.GetJournalCTime, pb.OfJournal, pb.CTimeReply, "c_time", False),
    Method(
        "getJournalState",
        requests.GetJournalState,
        pb.OfJournal,
        pb.JournalStateReply,
        requests.JournalStateReply,
        False,
    ),
    Method(
        "getEditLogManifest", requests.GetEditLogManifest, pb.GetManifest, pb.ManifestReply, "manifest", False
    ),
    Method(
        "getJournaledEdits",
        requests.GetJournaledEdits,
        pb.GetJournaledEdits,
        pb.JournaledEditsReply,
        requests.JournaledEdits,
        False,
    ),
    Method("canRollBack", requests.CanRollBack, pb.CanRollBack, pb.CanRollBackReply, "can_roll_back", False),
)
_CHANGING = (
    Method("doPreUpgrade", requests.DoPreUpgrade, pb.OfJournal),
    Method("doUpgrade", requests.DoUpgrade, pb.DoUpgrade),
    Method("doFinalize", requests.DoFinalize, pb.OfJournal),
    Method("doRollback", requests.DoRollback, pb.OfJournal),
    Method("discardSegments", requests.DiscardSegments, pb.DiscardSegments),
    Method("format", requests.Format, pb.Format),
    Method("newEpoch", requests.NewEpoch, pb.NewEpoch, pb.NewEpochReply, requests.NewEpochReply),
    Method("startLogSegment", requests.StartLogSegment, pb.StartLogSegment),
    Method("journal", requests.SendEdits, pb.Journal),
    Method("heartbeat", requests.Heartbeat, pb.Heartbeat),
    Method("finalizeLogSegment", requests.FinalizeLogSegment, pb.FinalizeLogSegment),
    Method("purgeLogs", requests.PurgeLogs, pb.PurgeLogs),
    Method(
        "prepareRecovery",
        requests.PrepareRecovery,
        pb.PrepareRecovery,
        pb.PrepareReply,
        requests.PrepareReply,
    ),
    Method("acceptRecovery", requests.AcceptRecovery, pb.AcceptRecovery),
)
_BETWEEN_NODES = (
    Method(
        "getEditLogManifestFromJournal",
        requests.GetEditLogManifest,
        pb.GetManifest,
        pb.ManifestReply,
        "manifest",
        False,
    ),
    Method("getStorageInfo", requests.GetStorageInfo, pb.OfJournal, pb.StorageInfo, JournalStorage, False),
)

METHODS = {
    JOURNAL_PROTOCOL: {one.name: one for one in (*_READING, *_CHANGING)},
    INTER_PROTOCOL: {one.name: one for one in _BETWEEN_NODES},
}

METHOD_OF = {one.kind: one for one in (*_READING, *_CHANGING)}
"""The method for each kind of client request."""


def method_named(protocol: str, name: str) -> Method:
    """Looks up a method. Raises NoSuchProtocol, NoSuchMethod."""
    methods = METHODS.get(protocol)
    if methods is None:
        raise NoSuchProtocol(f"Unknown protocol: {protocol}")
    method = methods.get(name)
    if method is None:
        raise NoSuchMethod(f"Unknown method {name} called on {protocol} protocol.")
    return method
