"""A JournalNode's HTTP pages: `/getJournal` sends a segment in Hadoop's file format, `/jmx` the counters as beans."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from metadata.records.journal_record import JournalStorage

from ...acceptor.journal import Journal
from ...edits.op_frames import encode_header
from ...errors import BadRequest, JournalError, JournalNotFormatted, JournalUnavailable, SegmentUnreadable
from ...requests import GetStorageInfo
from ..node_limits import NodeLimits
from ..server.node import JournalNode
from ..server.peer_nodes import WRITER_EPOCH
from .beans import Beans

# JSON in the format of Hadoop's `/jmx`: one key per line with spaces around the colon, because scripts search its
# lines.

STEP = "  "


def spelled(value: Any, indent: str = "") -> str:
    """Formats a value like Jackson's default pretty printer: arrays stay on one line, and each field of an object gets
    its own line."""
    if isinstance(value, dict):
        inner = indent + STEP
        fields = [f"{inner}{json.dumps(name)} : {spelled(one, inner)}" for name, one in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{ }"
    if isinstance(value, list | tuple):
        return f"[ {', '.join(spelled(one, indent) for one in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)


TXID_MAX = 2**63 - 2

HELD_BYTES_MAX = 8 * 1024 * 1024
"""Maximum number of bytes of one segment that are held in memory while it is sent. A larger segment is read twice
instead. Up to `transfers_max` segments are sent at a time."""

PIECE_SECONDS_MAX = 60.0
"""How long the reader of a segment may take to receive one batch: as long as stock readers themselves wait for a batch.
"""

SEGMENT_BYTES_PER_SECOND_MIN = 64 * 1024
"""The lowest rate at which a reader may receive a segment. Each transfer also gets PIECE_SECONDS_MAX of extra time.
Without this limit, a reader could occupy a transfer slot forever."""

log = logging.getLogger(__name__)

NAME_OF_FILE, DIGEST = "X-Image-Edits-Name", "X-MD5-Digest"


class Refused(Exception):
    """Raised to refuse an HTTP request with a status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(slots=True)
class File:
    """A segment to be sent. `held` contains the bytes of its batches, or is None if they are too large to hold."""

    name: str
    size: int
    digest: str
    layout_version: int
    writer_epoch: int
    last_txid: int
    held: list[bytes] | None


class NodePages:
    """The pages of one node. Its HTTP server serves `routes`."""

    def __init__(self, node: JournalNode, beans: Beans, limits: NodeLimits | None = None) -> None:
        self._limits = limits or NodeLimits()
        self._node = node
        self._beans = beans
        self._transfers = 0

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/getJournal", self._get_journal), web.get("/jmx", self._jmx)]

    async def _jmx(self, request: web.Request) -> web.Response:
        found = {"beans": self._beans.found(request.query.get("qry", ""))}
        return web.Response(text=spelled(found), content_type="application/json", charset="utf-8")

    async def _get_journal(self, request: web.Request) -> web.StreamResponse:
        limit = self._limits.transfers_max
        if self._transfers >= limit:
            return web.Response(status=503, text=f"{limit} segments are being sent: try again\n")
        self._transfers += 1
        try:
            return await self._sent(request)
        except Refused as refusal:
            return web.Response(status=refusal.status, text=f"{refusal}\n")
        except BadRequest as error:
            return web.Response(status=500, text=f"getedit failed. {error}\n")
        except (SegmentUnreadable, JournalNotFormatted) as error:
            return web.Response(status=404, text=f"{error}\n")
        except JournalError as error:
            return web.Response(status=500, text=f"getedit failed. {error}\n")
        finally:
            self._transfers -= 1

    async def _sent(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        journal = self._node.journal(query.get("jid", ""))
        storage = await journal.call(GetStorageInfo())
        _check_storage(query.get("storageInfo"), storage)
        start = _txid(query.get("segmentTxId"))
        in_progress_ok = query.get("inProgressOk", "true").lower() == "true"
        if await journal.is_purged(start):
            raise Refused(410, f"segment {start} was purged ; journal id: {journal.journal_id}")
        file = await measured(journal, start, in_progress_ok=in_progress_ok, held_bytes_max=HELD_BYTES_MAX)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/plain",
                "Content-Length": str(file.size),
                "Content-Disposition": f"attachment; filename={file.name}",
                "Cache-Control": "no-cache",
                NAME_OF_FILE: file.name,
                DIGEST: file.digest,
                WRITER_EPOCH: str(file.writer_epoch),
            }
        )
        await response.prepare(request)
        try:
            slowest = file.size / SEGMENT_BYTES_PER_SECOND_MIN
            async with asyncio.timeout(PIECE_SECONDS_MAX + slowest):
                await _write(response, _pieces(journal, start, file), PIECE_SECONDS_MAX)
        except TimeoutError:
            log.info("%s receives segment %d too slowly: disconnecting it", request.remote, start)
            if request.transport is not None:
                request.transport.abort()
        return response


async def measured(journal: Journal, start_txid: int, *, in_progress_ok: bool, held_bytes_max: int) -> File:
    """Measures a segment as it is now: its length and digest, and its batches if they fit in `held_bytes_max`. A
    segment in progress ends with the edits that are on disk.

    Raises SegmentUnreadable if the segment does not exist.
    """
    content = await journal.read_segment(start_txid, start_txid, in_progress_ok=in_progress_ok)
    header = encode_header(content.layout_version)
    digest, size, last = hashlib.md5(header, usedforsecurity=False), len(header), start_txid - 1
    held: list[bytes] | None = []
    epoch = 0
    async with aclosing(content.batches) as batches:
        async for batch in batches:
            size += len(batch.records)
            digest.update(batch.records)
            last, epoch = batch.last_txid, batch.writer_epoch
            if held is not None:
                held.append(batch.records)
                held = held if size <= held_bytes_max else None
    name = (
        f"edits_inprogress_{start_txid:019d}"
        if content.in_progress
        else f"edits_{start_txid:019d}-{last:019d}"
    )
    return File(name, size, digest.hexdigest(), content.layout_version, epoch, last, held)


async def _write(
    response: web.StreamResponse, pieces: AsyncGenerator[bytes, None], piece_seconds_max: float
) -> None:
    async with aclosing(pieces):
        async for piece in pieces:
            async with asyncio.timeout(piece_seconds_max):
                await response.write(piece)
    async with asyncio.timeout(piece_seconds_max):
        await response.write_eof()


async def _pieces(journal: Journal, start_txid: int, file: File) -> AsyncGenerator[bytes, None]:
    yield encode_header(file.layout_version)
    if file.held is not None:
        for records in file.held:
            yield records
        return
    content = await journal.read_segment(start_txid, start_txid)
    async with aclosing(content.batches) as batches:
        async for batch in batches:
            if batch.last_txid > file.last_txid:
                break
            yield batch.records
            if batch.last_txid == file.last_txid:
                return
    raise JournalUnavailable(f"segment {start_txid} was replaced while it was being sent")


def _check_storage(given: str | None, storage: JournalStorage) -> None:
    """Refuses readers of another namespace or cluster; layout and cTime may differ."""
    if given is None:
        return
    fields = given.split(":", 3)
    if len(fields) != 4 or (fields[1], fields[3]) != (str(storage.namespace_id), storage.cluster_id):
        mine = f"{storage.layout_version}:{storage.namespace_id}:{storage.c_time}:{storage.cluster_id}"
        raise Refused(
            403,
            f"This node has namespaceId '{storage.namespace_id}' and clusterId '{storage.cluster_id}' but the "
            f"requesting node expected '{given[:200]}' (here: {mine})",
        )


def _txid(given: str | None) -> int:
    if given is None or not given.isdecimal() or len(given) > 19 or not 1 <= int(given) <= TXID_MAX:
        raise BadRequest(f"segmentTxId {(given or '')[:40]!r} is not a transaction id")
    return int(given)
