"""Adapts a JournalNode to the acceptor interface: sends requests as RPCs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from yarl import URL

from metadata.records.journal_record import JournalStorage

from ...acceptor.copying import SegmentContent
from ...acceptor.programs.machine import CONCURRENT
from ...edits import EditLogError
from ...edits.op_frames import HEADER_BYTES, decode_header
from ...errors import BadRequest, EditsNotCached, JournalError, SegmentUnreadable
from ...requests import (
    AcceptRecovery,
    BatchDone,
    GetJournaledEdits,
    GetJournalState,
    GetStorageInfo,
    JournaledEdits,
    NewEpoch,
    R,
    Request,
    SendEdits,
)
from ..errors import NoSuchMethod
from ..server.peer_nodes import GET_JOURNAL, read_file
from ..wire import hadoop_pb2 as pb
from ..wire.hadoop_rpc import INTER_PROTOCOL
from ..wire.methods import METHOD_OF, METHODS
from ..wire.qjournal_messages import decoded
from .connection import NodeClient


class RemoteAcceptor:
    """One JournalNode of a journal. `peers` contains all JournalNodes of the journal, keyed by name; it is needed
    because a request to copy a segment names the source by its URL.

    Belongs to its event loop. Connects on the first call, and reconnects after losing the connection.
    """

    def __init__(self, address: str, journal_id: str, peers: Mapping[str, Any]) -> None:
        self.name = address
        self.journal_id = journal_id
        self._client = NodeClient(address)
        self._peers = peers
        self._storage: JournalStorage | None = None
        self._http_port = 0
        self._turns = asyncio.Lock()

    async def call(self, request: Request[R]) -> R:
        """Sends the request as an RPC. Raises JournalError."""
        if isinstance(request, GetStorageInfo):
            return cast("R", await self._storage_info())
        if isinstance(request, NewEpoch):
            self._storage = request.namespace.storage
        method = METHOD_OF[type(request)]
        try:
            message = method.message_of(self.journal_id, request)
        except ValueError as error:
            raise BadRequest(
                f"a number in this request does not fit in Hadoop's {method.name}: {error}"
            ) from error
        if isinstance(request, AcceptRecovery):
            message.from_url = await self._url_of(request)
        if isinstance(request, GetJournaledEdits):
            return cast("R", await self._journaled_edits(message, request.since_txid))
        if type(request) in CONCURRENT:
            answer = await self._client.call(method.name, message, method.reply)
        else:
            async with (
                self._turns
            ):  # a stock node has several handlers, and answers overlapping calls in any order
                answer = await self._client.call(method.name, message, method.reply)
        if isinstance(answer, pb.JournalStateReply | pb.ManifestReply):
            self._http_port = answer.http_port
        return cast("R", method.answer_of(answer))

    def begin(self, request: SendEdits, done: BatchDone) -> bool:  # noqa: ARG002 — the interface's arguments
        """Returns False, because a call over the network always has to be awaited."""
        return False

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        """Reads a segment over HTTP. Raises SegmentUnreadable."""
        url = URL(await self.url(start_txid, in_progress_ok=in_progress_ok), encoded=True)
        return await read_file(url, start_txid, from_txid, in_progress=in_progress_ok)

    async def url(self, start_txid: int, *, in_progress_ok: bool = True) -> str:
        """Returns the URL of this node's copy of a segment."""
        if not self._http_port:
            await self._find_pages()
        host = self.name.rpartition(":")[0]
        info = self._storage
        storage_info = (
            ""
            if info is None
            else "&storageInfo="
            + quote(f"{info.layout_version}:{info.namespace_id}:{info.c_time}:{info.cluster_id}", safe="")
        )
        return (
            f"http://{host}:{self._http_port}{GET_JOURNAL}?jid={quote(self.journal_id)}&segmentTxId={start_txid}"
            f"{storage_info}&inProgressOk={'true' if in_progress_ok else 'false'}"
        )

    async def close(self) -> None:
        await self._client.close()

    async def _journaled_edits(self, message: pb.GetJournaledEdits, since_txid: int) -> JournaledEdits:
        """Returns edits from the node's cache. Nodes of version 2.7 have no cache."""
        try:
            answer = await self._client.call("getJournaledEdits", message, pb.JournaledEditsReply)
        except NoSuchMethod as error:
            raise EditsNotCached(since_txid, 0) from error
        return _edits(self.name, answer)

    async def _find_pages(self) -> None:
        try:
            await self.call(GetJournalState())
        except JournalError as error:
            raise SegmentUnreadable(
                f"{self.name} did not report the address to read segments from: {error}"
            ) from error

    async def _url_of(self, request: AcceptRecovery) -> str:
        source = self._peers.get(request.source)
        if not isinstance(source, RemoteAcceptor):
            raise BadRequest(f"{request.source!r} is not a JournalNode of journal {self.journal_id}")
        return await source.url(request.state.start_txid)

    async def _storage_info(self) -> JournalStorage:
        method = METHODS[INTER_PROTOCOL]["getStorageInfo"]
        message = method.message_of(self.journal_id, GetStorageInfo())
        try:
            answer = await self._client.call(method.name, message, pb.StorageInfo, INTER_PROTOCOL)
        except NoSuchMethod as error:
            raise BadRequest(
                f"the JournalNode at {self.name} does not report its namespace: pass `namespace` to the manager"
            ) from error
        return decoded(JournalStorage, answer)


def _edits(name: str, reply: pb.JournaledEditsReply) -> JournaledEdits:
    if not reply.txn_count:
        return JournaledEdits(0)
    try:
        layout_version = decode_header(reply.edit_log)
    except EditLogError as error:
        raise SegmentUnreadable(f"{name} sent unreadable edits: {error}") from error
    records = reply.edit_log[HEADER_BYTES:]
    return decoded(JournaledEdits, reply, layout_version=layout_version, records=records)
