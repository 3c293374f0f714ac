"""What reaches the port of a JournalNode: frames in pieces, garbage, too much, too slow, too many, twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qjm_compat.config import JournalConfig
from qjm_compat.hadoop.limits import NodeLimits
from qjm_compat.hadoop.server import connections
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.framing import frame_of, parts_of
from qjm_compat.hadoop.wire.rpc import JOURNAL_PROTOCOL
from tests.qjm_compat.acceptor.one_writer import edits
from tests.qjm_compat.hadoop.test_name_node_calls import JID, NameNode, namespace
from tests.support.aio import until_true
from tests.support.in_process import on_bookies
from tests.support.served_journal_node import ServedNode, served_node

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


@asynccontextmanager
async def on_a_port(tmp_path: Path, limits: NodeLimits | None = None) -> AsyncIterator[ServedNode]:
    async with (
        on_bookies(tmp_path, 1) as (cluster, client),
        served_node("jn1", cluster.store, client, JournalConfig(ensemble_size=1), limits=limits) as node,
    ):
        yield node


async def connected(
    node: ServedNode, *, of: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """From an address of this host."""
    host, _, port = node.address.rpartition(":")
    return await asyncio.open_connection(host, int(port), local_addr=(of, 0))


async def answer_to(node: ServedNode, data: bytes) -> bytes:
    """All that comes until the other end closes."""
    reader, writer = await connected(node)
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_recorded_call_gets_the_recorded_answer_wherever_its_bytes_are_split(tmp_path: Path) -> None:
    async with on_a_port(tmp_path) as node:
        said = GREETING + CONTEXT + IS_FORMATTED
        for cut in range(1, len(said)):
            reader, writer = await connected(node)
            writer.write(said[:cut])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(said[cut:])
            assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED, cut
            writer.close()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"GET /jmx HTTP/1.1\r\n\r\n", b"HTTP request to a Hadoop IPC port"),
        (b"hrpc\x08\x00\x00", b"Server IPC version 9 cannot communicate with client version 8"),
        (b"hrpc\x0a\x00\x00", b"Server IPC version 9 cannot communicate with client version 10"),
        (b"\x16\x03\x01\x02\x00\x01\x00", b""),
        (GREETING + b"\x7f\xff\xff\xff", b"frame of 2147483647 bytes was announced"),
        (GREETING + b"\x00\x00\x00\x04\xff\xff\xff\xff", b"the length of a message"),
        (GREETING + IS_FORMATTED, b"Unknown out of band call"),
        (GREETING + CONTEXT + b"\x00\x00\x00\x02\x01\x00", b"the header of a call cannot be read"),
    ],
)
async def test_what_is_no_call_ends_the_connection_with_a_reason(
    tmp_path: Path, said: bytes, expected: bytes
) -> None:
    async with on_a_port(tmp_path) as node:
        assert expected in await answer_to(node, said)
        reader, writer = await connected(node)
        writer.write(GREETING + CONTEXT + IS_FORMATTED)
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        writer.close()


async def test_a_call_that_comes_in_one_piece_with_the_greeting_may_be_as_large_as_any(
    tmp_path: Path,
) -> None:
    """As after a pause, in which a NameNode gives its connection up: the next batch comes right behind the context."""
    async with on_a_port(tmp_path) as node:
        name = "j" * 2 * connections.STRANGER_FRAME_BYTES_MAX
        header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=5, client_id=b"c" * 16, retry_count=0)
        call = pb.CallHeader(method="isFormatted", protocol=JOURNAL_PROTOCOL, version=1)
        message = pb.OfJournal(journal_id=pb.JournalId(identifier=name))
        large = frame_of([one.SerializeToString() for one in (header, call, message)])
        reader, writer = await connected(node)
        writer.write(GREETING + CONTEXT + large + IS_FORMATTED)
        size = int.from_bytes(await reader.readexactly(4), "big")
        assert b"bad journal id" in await reader.readexactly(size)
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        writer.close()


async def test_a_client_that_negotiates_is_told_that_it_need_not(tmp_path: Path) -> None:
    async with on_a_port(tmp_path) as node:
        reader, writer = await connected(node)
        header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=-33, client_id=b"", retry_count=-1)
        negotiate = frame_of([header.SerializeToString(), pb.Sasl(state=1).SerializeToString()])
        writer.write(b"hrpc\x09\x00\xdf" + negotiate)
        size = int.from_bytes(await reader.readexactly(4), "big")
        told, sasl = parts_of(await reader.readexactly(size))
        assert pb.ResponseHeader.FromString(told).call_id == 4294967263
        assert pb.Sasl.FromString(sasl).state == 0
        writer.write(CONTEXT + IS_FORMATTED)
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        writer.close()


async def test_what_is_too_slow_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(connections, "GREETING_SECONDS_MAX", 0.1)
    monkeypatch.setattr(connections, "FRAME_SECONDS_MAX", 0.1)
    async with on_a_port(tmp_path) as node:
        for said in (b"", GREETING[:3], GREETING + CONTEXT[:20], GREETING + CONTEXT + IS_FORMATTED[:20]):
            assert await answer_to(node, said) == b""

        async def all_gone() -> bool:
            return not node.server.connections

        await until_true(all_gone)


async def test_five_hundred_idle_connections_are_in_nobodys_way_and_too_many_are_cut(tmp_path: Path) -> None:
    async with on_a_port(tmp_path, NodeLimits(connections_max=501, peer_share=1)) as node:
        idle = [await connected(node) for _ in range(500)]
        for _, writer in idle:
            writer.write(GREETING + CONTEXT)
        reader, writer = await connected(node)
        writer.write(GREETING + CONTEXT + IS_FORMATTED)
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        assert b"501 connections of this address are open, and no more may be" in await answer_to(
            node, GREETING
        )
        for _, one in [*idle, (reader, writer)]:
            one.close()


async def test_a_call_that_is_made_again_happens_once(tmp_path: Path) -> None:
    async with on_a_port(tmp_path) as node:
        name_node = NameNode(node.address)
        await name_node.format(force=False)
        await name_node.client.close()
        message = pb.NewEpoch(journal_id=JID, namespace=namespace(), epoch=1)
        replies = []
        for retry in (0, 1):
            reader, writer = await connected(node)
            header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=5, client_id=b"c" * 16, retry_count=retry)
            call = pb.CallHeader(method="newEpoch", protocol=JOURNAL_PROTOCOL, version=1)
            writer.write(
                GREETING + CONTEXT + frame_of([one.SerializeToString() for one in (header, call, message)])
            )
            size = int.from_bytes(await reader.readexactly(4), "big")
            replies.append(await reader.readexactly(size))
            writer.close()
        assert replies[0] == replies[1]
        assert pb.ResponseHeader.FromString(parts_of(replies[0])[0]).status == 0


def call_of(
    method: str, message: Any, call_id: int, *, retry: int = 0, client_id: bytes = b"c" * 16
) -> bytes:
    header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=call_id, client_id=client_id, retry_count=retry)
    call = pb.CallHeader(method=method, protocol=JOURNAL_PROTOCOL, version=1)
    return frame_of([one.SerializeToString() for one in (header, call, message)])


async def next_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def test_a_call_that_is_made_again_while_it_is_under_way_happens_once_and_both_are_answered(
    tmp_path: Path,
) -> None:
    """The second comes over another connection, as when the first one broke."""
    async with on_a_port(tmp_path) as node:
        name_node = NameNode(node.address)
        await name_node.format(force=False)
        await name_node.client.close()
        message = pb.NewEpoch(journal_id=JID, namespace=namespace(), epoch=1)
        connections = [await connected(node) for _ in range(3)]
        async with node.node.journal("ns1")._turns.next():
            for retry, (_, writer) in enumerate(connections[:2]):
                writer.write(GREETING + CONTEXT + call_of("newEpoch", message, 5, retry=retry))

                async def is_heard(calls: int = retry + 1) -> bool:
                    return node.server.calls.counts["newEpoch"] == calls

                await until_true(is_heard)
        replies = [await next_frame(reader) for reader, _ in connections[:2]]
        reader, writer = connections[2]
        writer.write(GREETING + CONTEXT + call_of("newEpoch", message, 5, retry=1, client_id=b"d" * 16))
        of_another = await next_frame(reader)
        assert replies[0] == replies[1]
        assert pb.ResponseHeader.FromString(parts_of(replies[0])[0]).status == 0
        told = pb.ResponseHeader.FromString(parts_of(of_another)[0])
        assert "Proposed epoch 1 <= last promise 1" in told.error_message
        for _, one in connections:
            one.close()


async def test_calls_that_come_one_behind_the_other_are_made_in_their_order(tmp_path: Path) -> None:
    """A whole segment, without waiting for an answer: each call only succeeds behind the one before it."""
    batches = 50
    async with on_a_port(tmp_path) as node:
        name_node = NameNode(node.address)
        await name_node.format(force=False)
        await name_node.become_writer()
        await name_node.client.close()
        info = name_node.info
        calls: list[tuple[str, Any]] = [
            ("startLogSegment", pb.StartLogSegment(info=info(), txid=1, layout_version=-67))
        ]
        for txid in range(1, batches + 1):
            records = edits(txid, txid, name_node.epoch)
            batch = pb.Journal(info=info(), segment_txid=1, first_txid=txid, num_txns=1, records=records)
            calls.append(("journal", batch))
        calls.append(
            ("finalizeLogSegment", pb.FinalizeLogSegment(info=info(), start_txid=1, end_txid=batches))
        )
        reader, writer = await connected(node)
        writer.write(GREETING + CONTEXT + b"".join(call_of(*call, n) for n, call in enumerate(calls)))
        told = [pb.ResponseHeader.FromString(parts_of(await next_frame(reader))[0]) for _ in calls]
        assert [header.error_message for header in told if header.status] == []
        assert {header.call_id for header in told} == set(range(len(calls)))
        writer.close()


async def test_unknown_methods_protocols_and_versions_get_hadoops_errors(tmp_path: Path) -> None:
    async with on_a_port(tmp_path) as node:
        for method, protocol, version, expected in (
            ("fly", JOURNAL_PROTOCOL, 1, "org.apache.hadoop.ipc.RpcNoSuchMethodException"),
            ("isFormatted", "a.b.C", 1, "org.apache.hadoop.ipc.RpcNoSuchProtocolException"),
            ("isFormatted", JOURNAL_PROTOCOL, 2, "org.apache.hadoop.ipc.RPC$VersionMismatch"),
            ("newEpoch", JOURNAL_PROTOCOL, 1, "com.google.protobuf.UninitializedMessageException"),
        ):
            reader, writer = await connected(node)
            header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=1, client_id=b"c" * 16, retry_count=0)
            call = pb.CallHeader(method=method, protocol=protocol, version=version)
            message = pb.OfJournal(journal_id=JID)
            writer.write(
                GREETING + CONTEXT + frame_of([one.SerializeToString() for one in (header, call, message)])
            )
            size = int.from_bytes(await reader.readexactly(4), "big")
            told = pb.ResponseHeader.FromString(parts_of(await reader.readexactly(size))[0])
            assert (told.status, told.exception_class) == (1, expected)
            writer.close()
