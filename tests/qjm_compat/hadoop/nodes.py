"""JournalNodes on one cluster, NameNodes that call them, and peers that say what they like to their ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from google.protobuf.message import Message

from ledgers.aio import LedgerClient
from qjm_compat.acceptor.journal import Journal
from qjm_compat.config import JournalConfig
from qjm_compat.hadoop.client.connection import NodeClient
from qjm_compat.hadoop.node_limits import NodeLimits
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import JOURNAL_PROTOCOL
from qjm_compat.hadoop.wire.methods import METHODS
from qjm_compat.hadoop.wire.rpc_framing import frame_of, parts_of
from tests.qjm_compat.acceptor.one_writer import edits
from tests.support.in_process import InProcessCluster, on_bookies
from tests.support.served_journal_node import ServedNode, served_node

CONFIG = JournalConfig(ensemble_size=1)
JID = pb.JournalId(identifier="ns1")
STORAGE = pb.StorageInfo(layout_version=-67 & 0xFFFFFFFF, namespace_id=7, cluster_id="CID-x", c_time=0)
UPGRADED = pb.StorageInfo(layout_version=-67 & 0xFFFFFFFF, namespace_id=7, cluster_id="CID-x", c_time=99)


def namespace(storage: pb.StorageInfo = STORAGE) -> pb.NamespaceInfo:
    return pb.NamespaceInfo(
        build_version="b", unused=0, block_pool_id="BP-1", storage=storage, software_version="3.4.1"
    )


def message(method: str, **fields: Any) -> Message:
    """What a call of the journal is asked with."""
    kind = METHODS[JOURNAL_PROTOCOL][method].message
    if "journal_id" in kind.DESCRIPTOR.fields_by_name:
        fields.setdefault("journal_id", JID)
    return kind(**fields)


class NameNode:
    """One process: one client id, its epoch, and its calls' numbers."""

    def __init__(self, address: str) -> None:
        self.client = NodeClient(address)
        self.epoch = 0
        self.serial = -1

    async def go_on_at(self, node: ServedNode) -> None:
        """The same process, at a daemon that took over the name of the one before."""
        client_id = self.client._client_id
        await self.client.close()
        self.client = NodeClient(node.address)
        self.client._client_id = client_id

    def info(self, committed: int | None = None) -> pb.RequestInfo:
        self.serial += 1
        return pb.RequestInfo(journal_id=JID, epoch=self.epoch, serial=self.serial, committed_txid=committed)

    async def ask(self, method: str, **fields: Any) -> Any:
        """A call by the next number if it is a writer's, unless the fields say otherwise."""
        found = METHODS[JOURNAL_PROTOCOL][method]
        if "info" in found.message.DESCRIPTOR.fields_by_name and "info" not in fields:
            fields["info"] = self.info()
        return await self.client.call(method, message(method, **fields), found.reply)

    async def format(self, **fields: Any) -> None:
        await self.ask("format", namespace=namespace(), **fields)

    async def promised(self) -> int:
        reply = await self.ask("getJournalState")
        assert isinstance(reply.last_promised_epoch, int)
        return reply.last_promised_epoch

    async def become_writer(self) -> Any:
        self.epoch = await self.promised() + 1
        return await self.ask("newEpoch", namespace=namespace(), epoch=self.epoch)

    async def start(self, txid: int) -> None:
        await self.ask("startLogSegment", txid=txid, layout_version=-67)

    async def write(self, segment: int, first: int, last: int, committed: int | None = None) -> None:
        await self.ask(
            "journal",
            info=self.info(committed),
            first_txid=first,
            num_txns=last - first + 1,
            records=edits(first, last, self.epoch),
            segment_txid=segment,
        )

    async def finalize(self, start: int, end: int) -> None:
        await self.ask("finalizeLogSegment", start_txid=start, end_txid=end)

    async def manifest(self, since: int = 0, **fields: Any) -> pb.Manifest:
        reply = await self.ask("getEditLogManifest", since_txid=since, **fields)
        assert isinstance(reply.manifest, pb.Manifest)
        return reply.manifest


class Nodes:
    """JournalNodes on one cluster, and NameNodes that go to one of them."""

    def __init__(self, cluster: InProcessCluster, client: LedgerClient, node: ServedNode) -> None:
        self.cluster = cluster
        self.ledgers = client
        self.node = node
        self.name_nodes: list[NameNode] = []

    def name_node(self, node: ServedNode | None = None) -> NameNode:
        self.name_nodes.append(NameNode((node or self.node).address))
        return self.name_nodes[-1]

    @asynccontextmanager
    async def another(self, name: str, peers: list[tuple[str, int]]) -> AsyncIterator[ServedNode]:
        async with served_node(name, self.cluster.store, self.ledgers, CONFIG, peers) as node:
            yield node

    async def get(self, query: str, node: ServedNode | None = None) -> tuple[int, dict[str, str], bytes]:
        url = f"http://{(node or self.node).http_address}/getJournal?{query}"
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            return reply.status, dict(reply.headers), await reply.read()


@asynccontextmanager
async def on_a_node(tmp_path: Path, limits: NodeLimits | None = None) -> AsyncIterator[Nodes]:
    async with (
        on_bookies(tmp_path, 1) as (cluster, client),
        served_node("jn1", cluster.store, client, CONFIG, limits=limits) as node,
    ):
        nodes = Nodes(cluster, client, node)
        try:
            yield nodes
        finally:
            for one in nodes.name_nodes:
                await one.client.close()


async def active(nodes: Nodes) -> NameNode:
    """A NameNode with segment 1-2 finalized, and 3 in progress, of which 3 is known to be committed."""
    node = nodes.name_node()
    await node.format(force=False)
    await node.become_writer()
    await node.start(1)
    await node.write(1, 1, 2)
    await node.finalize(1, 2)
    await node.start(3)
    await node.write(3, 3, 3)
    await node.write(3, 4, 4, committed=3)
    return node


# --- what stands on the wire -----------------------------------------------------------------------------------

# As a NameNode of 2.7.3 sent them.
GREETING = bytes.fromhex("68727063090000")
CONTEXT = bytes.fromhex(
    "0000005f1a08021000180522105e83af4fa4084e4f8b5fd8089ec85a4b28014312060a04726f6f741a396f72672e6170616368652e68"
    "61646f6f702e686466732e716a6f75726e616c2e70726f746f636f6c2e514a6f75726e616c50726f746f636f6c"
)
IS_FORMATTED = bytes.fromhex(
    "0000006e1a08021000180022105e83af4fa4084e4f8b5fd8089ec85a4b28004a0a0b6973466f726d617474656412396f72672e617061"
    "6368652e6861646f6f702e686466732e716a6f75726e616c2e70726f746f636f6c2e514a6f75726e616c50726f746f636f6c1801070a"
    "050a036e7331"
)
NOT_FORMATTED = bytes.fromhex("0000001e1a0800100018093a105e83af4fa4084e4f8b5fd8089ec85a4b4000020800")


def call_frame(
    method: str,
    said: Message,
    call_id: int = 1,
    *,
    client_id: bytes = b"s" * 16,
    retry: int = 0,
    protocol: str = JOURNAL_PROTOCOL,
    version: int = 1,
) -> bytes:
    """A call as a stock client sends it."""
    header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=call_id, client_id=client_id, retry_count=retry)
    call = pb.CallHeader(method=method, protocol=protocol, version=version)
    return frame_of([one.SerializeToString() for one in (header, call, said)])


async def next_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def next_header(reader: asyncio.StreamReader) -> pb.ResponseHeader:
    """Of the next answer, as it stands on the wire."""
    return pb.ResponseHeader.FromString(parts_of(await next_frame(reader))[0])


@asynccontextmanager
async def stranger(
    nodes: Nodes, said: bytes = b"", *, of: str = "127.0.0.1", introduced: bool = True
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Somebody of an address of this host who has said who it is, and so much more."""
    host, _, port = nodes.node.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(of, 0))
    writer.write((GREETING + CONTEXT if introduced else b"") + said)
    try:
        yield reader, writer
    finally:
        writer.close()


async def is_served(nodes: Nodes, *, of: str = "127.0.0.1") -> bool:
    """Whether somebody who comes now is answered."""
    async with stranger(nodes, IS_FORMATTED, of=of) as (reader, _):
        return bool(await next_frame(reader))


async def words_of_refusal(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other end closes, or resets."""
    try:
        return await reader.read()
    except ConnectionResetError:  # what came before it is kept, and never given
        return bytes(reader._buffer)  # type: ignore[attr-defined]


async def answer_to(nodes: Nodes, said: bytes) -> bytes:
    """All that comes to who has said nothing else."""
    async with stranger(nodes, said, introduced=False) as (reader, _):
        return await words_of_refusal(reader)


@asynccontextmanager
async def standing_still(nodes: Nodes) -> AsyncIterator[Journal]:
    """Calls that change the journal, and those that wait for them, come to nothing inside the block."""
    journal = nodes.node.node.journal("ns1")
    async with journal._turns.next():
        yield journal
