"""A recovery copies from the peer that the writer names: each op is verified, and the writer is still the latest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bookie.wire.data import sockets
from qjm_compat.errors import JournalError, SegmentUnreadable, StaleEpoch
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from tests.qjm_compat.hadoop.nodes import NameNode, active, on_a_node

HEADER_BYTES = 8
SEGMENT, END = 3, 4
PADDING = b"\xff" * 4096
"""As a stock node has it behind the last edit of a file in progress."""


@dataclass
class Peer:
    """A JournalNode's page that sends these bytes, when it is let."""

    body: bytes
    may_send: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    address: tuple[str, int] = ("", 0)

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://{host}:{port}/getJournal?jid=ns1&segmentTxId={SEGMENT}&inProgressOk=true"

    async def get(self, _: web.Request) -> web.Response:
        self.asked.set()
        await self.may_send.wait()
        return web.Response(body=self.body)


@asynccontextmanager
async def peer_with(body: bytes, *, at_once: bool = True) -> AsyncIterator[Peer]:
    peer = Peer(body)
    if at_once:
        peer.may_send.set()
    bound = sockets.bound("127.0.0.1", 0)
    peer.address = bound.getsockname()[:2]
    pages = web.Application()
    pages.add_routes([web.get("/getJournal", peer.get)])
    runner = web.AppRunner(pages)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        yield peer
    finally:
        await runner.cleanup()


async def accept(writer: NameNode, peer: Peer) -> Any:
    state = pb.SegmentState(start_txid=SEGMENT, end_txid=END, in_progress=True)
    return await writer.ask("acceptRecovery", state=state, from_url=peer.url)


async def next_writer(writer: NameNode) -> NameNode:
    await writer.format(force=False)
    await writer.become_writer()
    return writer


def flipped(at: int) -> Callable[[bytes], bytes]:
    def flip(body: bytes) -> bytes:
        return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]

    return flip


@pytest.mark.parametrize(
    "spoil",
    [
        *(flipped(at) for at in (HEADER_BYTES, HEADER_BYTES + 3, HEADER_BYTES + 12, HEADER_BYTES + 40, -1)),
        lambda body: body[:-1],
        lambda body: body[:HEADER_BYTES],
        lambda body: body[: HEADER_BYTES - 1],
        lambda body: body + PADDING + b"x",
    ],
    ids=["opcode", "length", "txid", "body", "checksum", "cut", "empty", "no header", "behind the end"],
)
async def test_a_copy_that_is_not_whole_is_not_accepted_and_a_whole_one_is_afterwards(
    spoil: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        _, _, whole = await nodes.get(f"jid=ns1&segmentTxId={SEGMENT}")
        async with peer_with(spoil(whole)) as peer, nodes.another("jn2", [peer.address]) as node:
            writer = await next_writer(nodes.name_node(node))
            with pytest.raises(SegmentUnreadable):
                await accept(writer, peer)
            assert list((await writer.manifest(in_progress_ok=True)).logs) == []
            with pytest.raises(JournalError):
                await writer.finalize(SEGMENT, END)
            peer.body = whole + PADDING
            await accept(writer, peer)
            await writer.finalize(SEGMENT, END)
            assert (await nodes.get(f"jid=ns1&segmentTxId={SEGMENT}", node))[2] == whole


async def test_a_copy_for_a_writer_that_is_overtaken_meanwhile_is_not_accepted(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        _, _, whole = await nodes.get(f"jid=ns1&segmentTxId={SEGMENT}")
        async with (
            peer_with(whole, at_once=False) as peer,
            nodes.another("jn2", [peer.address]) as node,
            nodes.another("jn2", []) as restarted,
        ):
            writer = await next_writer(nodes.name_node(node))
            accepting = asyncio.ensure_future(accept(writer, peer))
            await peer.asked.wait()
            later = nodes.name_node(restarted)
            await later.become_writer()
            peer.may_send.set()
            with pytest.raises(StaleEpoch, match="less than the last promised epoch"):
                await accepting
            assert list((await later.manifest(in_progress_ok=True)).logs) == []
            prepared = await later.ask("prepareRecovery", segment_txid=SEGMENT)
            assert not prepared.HasField("segment") and not prepared.HasField("accepted_in_epoch")


async def test_a_writer_of_an_earlier_epoch_makes_no_node_fetch_anything(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        async with peer_with(b"") as peer, nodes.another("jn2", [peer.address]) as node:
            old = await next_writer(nodes.name_node(node))
            await nodes.name_node(node).become_writer()
            with pytest.raises(StaleEpoch):
                await accept(old, peer)
            assert not peer.asked.is_set()
