"""Reads segments over HTTP from other JournalNodes, ours or stock ones, but only from known peers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import aiohttp
from yarl import URL

from ...acceptor.copying import SegmentContent, SegmentReader
from ...batch import Batch
from ...edits import slice_batch
from ...errors import BadRequest, SegmentUnreadable
from ..wire.segment_splitter import SegmentCutter, batches_of

GET_JOURNAL = "/getJournal"

CONNECT_SECONDS_MAX = 20.0
WRITER_EPOCH = "X-Writer-Epoch"
"""The header that contains the writer's epoch. Our JournalNodes send it; stock ones do not."""

READ_SECONDS_MAX = 60.0
"""Time limits for connecting to a peer, and for a pause in the middle of a segment."""

PIECE_BYTES = 256 * 1024
EPOCH_DIGITS_MAX = 19
SAID_CHARACTERS_MAX = 500

Address = tuple[str, int]
AddressesOf = Callable[[], Awaitable[list[Address]]]


class PeersByUrl(Mapping[str, SegmentReader]):
    """Segment readers, keyed by the URL that a writer provides. Only peers are read, so that a writer cannot make this
    daemon read from elsewhere."""

    def __init__(self, journal_id: str, addresses_of: AddressesOf) -> None:
        self._journal_id = journal_id
        self._addresses_of = addresses_of

    def __getitem__(self, url: str) -> SegmentReader:
        return PeerSegment(url, self._journal_id, self._addresses_of)

    def __contains__(self, url: object) -> bool:
        return isinstance(url, str) and url.startswith("http://")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class PeerSegment:
    """The segment at a URL. It is read only if the URL belongs to a peer and refers to this journal."""

    def __init__(self, url: str, journal_id: str, addresses_of: AddressesOf) -> None:
        self._text = url
        self._journal_id = journal_id
        self._addresses_of = addresses_of

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        """Reads the segment. Raises BadRequest if the URL does not belong to a peer, or SegmentUnreadable."""
        url = self._checked(start_txid)
        await self._check_is_peer(url)
        return await read_file(url, start_txid, from_txid, in_progress=in_progress_ok)

    def _checked(self, start_txid: int) -> URL:
        try:
            url = URL(self._text, encoded=True)
            wanted = (url.query.get("jid"), url.query.get("segmentTxId"))
        except ValueError as error:
            raise BadRequest(f"{self._text!r} is not a URL: {error}") from error
        if url.path != GET_JOURNAL or url.user is not None or wanted != (self._journal_id, str(start_txid)):
            raise BadRequest(
                f"{self._text!r} is not the URL of segment {start_txid} of journal {self._journal_id}"
            )
        return url

    async def _check_is_peer(self, url: URL) -> None:
        peers = await self._addresses_of()
        host, port = url.host or "", url.port or 80
        if (host, port) in peers:
            return
        named = await resolved(host)
        for peer, peer_port in peers:
            if port == peer_port and named & await resolved(peer):
                return
        raise BadRequest(
            f"{host}:{port} is not a JournalNode that this one copies from: {sorted(peers)}; add more with --peer"
        )


async def resolved(host: str) -> frozenset[str]:
    """Returns the IP addresses of a host, or an empty set if the host cannot be resolved."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


async def read_file(url: URL, start_txid: int, from_txid: int, *, in_progress: bool) -> SegmentContent:
    """Starts reading a segment file, and returns once its layout is known. Raises SegmentUnreadable."""
    cutter = SegmentCutter(start_txid, str(url.with_query(None)))
    batches = batches_of(_pieces(url, cutter), cutter)
    try:
        first = await anext(batches, None)
    except BaseException:
        await batches.aclose()
        raise
    assert cutter.layout_version is not None, "a file without a header raises"
    return SegmentContent(cutter.layout_version, in_progress, _from(first, batches, from_txid))


async def _from(
    first: Batch | None, rest: AsyncGenerator[Batch, None], from_txid: int
) -> AsyncGenerator[Batch, None]:
    async with aclosing(rest):
        if first is not None and first.last_txid >= from_txid:
            yield _part_from(first, from_txid)
        async for batch in rest:
            if batch.last_txid >= from_txid:
                yield _part_from(batch, from_txid)


def _part_from(batch: Batch, from_txid: int) -> Batch:
    """Drops the edits before `from_txid`. A batch may contain such edits, because a piece of a file may hold many
    flushes."""
    if batch.first_txid >= from_txid:
        return batch
    records = bytes(slice_batch(batch.records, from_txid, batch.last_txid))
    return replace(batch, first_txid=from_txid, num_txns=batch.last_txid - from_txid + 1, records=records)


async def _pieces(url: URL, cutter: SegmentCutter) -> AsyncGenerator[bytes, None]:
    try:
        async with _opened(url) as reply:
            epoch = reply.headers.get(WRITER_EPOCH, "")
            cutter.writer_epoch = int(epoch) if epoch.isdecimal() and len(epoch) <= EPOCH_DIGITS_MAX else 0
            async for piece in reply.content.iter_chunked(PIECE_BYTES):
                yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SegmentUnreadable(
            f"{url.host}:{url.port} does not serve the segment: {error or 'no answer'}"
        ) from error


@asynccontextmanager
async def _opened(url: URL) -> AsyncGenerator[aiohttp.ClientResponse, None]:
    patience = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX, sock_read=READ_SECONDS_MAX)
    async with (
        aiohttp.ClientSession(timeout=patience, trust_env=False) as session,
        session.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as reply,
    ):
        if reply.status != 200:
            said = (await reply.content.read(SAID_CHARACTERS_MAX)).decode(errors="replace")
            raise SegmentUnreadable(
                f"{url.host}:{url.port} answered with status {reply.status}: {said.strip()}"
            )
        yield reply
