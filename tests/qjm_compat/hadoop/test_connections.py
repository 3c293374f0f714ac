"""What reaches the port of a JournalNode: frames in pieces, garbage, too much, too slow, too many, twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from qjm_compat.hadoop.node_limits import NodeLimits
from qjm_compat.hadoop.server import connections
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import JOURNAL_PROTOCOL
from qjm_compat.hadoop.wire.rpc_framing import frame_of, parts_of
from tests.qjm_compat.acceptor.one_writer import edits
from tests.qjm_compat.hadoop.nodes import (
    CONTEXT,
    GREETING,
    IS_FORMATTED,
    JID,
    NOT_FORMATTED,
    answer_to,
    call_frame,
    is_served,
    namespace,
    next_frame,
    next_header,
    on_a_node,
    standing_still,
    stranger,
)
from tests.support.aio import until_true


async def test_a_recorded_call_gets_the_recorded_answer_wherever_its_bytes_are_split(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        said = GREETING + CONTEXT + IS_FORMATTED
        for cut in range(1, len(said)):
            async with stranger(nodes, said[:cut], introduced=False) as (reader, writer):
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(said[cut:])
                assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED, cut


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
    async with on_a_node(tmp_path) as nodes:
        assert expected in await answer_to(nodes, said)
        assert await is_served(nodes)


async def test_a_call_that_comes_in_one_piece_with_the_greeting_may_be_as_large_as_any(
    tmp_path: Path,
) -> None:
    """As after a pause, in which a NameNode gives its connection up: the next batch comes right behind the context."""
    name = "j" * 2 * connections.STRANGER_FRAME_BYTES_MAX
    large = call_frame("isFormatted", pb.OfJournal(journal_id=pb.JournalId(identifier=name)))
    async with on_a_node(tmp_path) as nodes, stranger(nodes, large + IS_FORMATTED) as (reader, _):
        assert b"bad journal id" in await next_frame(reader)
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED


async def test_a_client_that_negotiates_is_told_that_it_need_not(tmp_path: Path) -> None:
    header = pb.RequestHeader(rpc_kind=2, rpc_op=0, call_id=-33, client_id=b"", retry_count=-1)
    negotiate = frame_of([header.SerializeToString(), pb.Sasl(state=1).SerializeToString()])
    said = b"hrpc\x09\x00\xdf" + negotiate
    async with on_a_node(tmp_path) as nodes, stranger(nodes, said, introduced=False) as (reader, writer):
        told, sasl = parts_of(await next_frame(reader))
        assert pb.ResponseHeader.FromString(told).call_id == 4294967263
        assert pb.Sasl.FromString(sasl).state == 0
        writer.write(CONTEXT + IS_FORMATTED)
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED


async def test_what_is_too_slow_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(connections, "GREETING_SECONDS_MAX", 0.1)
    monkeypatch.setattr(connections, "FRAME_SECONDS_MAX", 0.1)
    async with on_a_node(tmp_path) as nodes:
        for said in (b"", GREETING[:3], GREETING + CONTEXT[:20], GREETING + CONTEXT + IS_FORMATTED[:20]):
            assert await answer_to(nodes, said) == b""
        await until_true(lambda: not nodes.node.server.connections)


async def test_five_hundred_idle_connections_are_in_nobodys_way_and_too_many_are_cut(tmp_path: Path) -> None:
    limits = NodeLimits(connections_max=501, peer_share=1)
    async with on_a_node(tmp_path, limits) as nodes, AsyncExitStack() as stay:
        for _ in range(500):
            await stay.enter_async_context(stranger(nodes))
        reader, _ = await stay.enter_async_context(stranger(nodes, IS_FORMATTED))
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        told = await answer_to(nodes, GREETING)
        assert b"501 connections of this address are open, and no more may be" in told


async def test_a_call_that_is_made_again_happens_once_also_while_it_is_under_way_and_is_answered_alike(
    tmp_path: Path,
) -> None:
    """Each time over another connection, as when the one before broke."""
    async with on_a_node(tmp_path) as nodes, AsyncExitStack() as stay:
        await nodes.name_node().format(force=False)
        message = pb.NewEpoch(journal_id=JID, namespace=namespace(), epoch=1)

        async def asked(retry: int, client_id: bytes = b"c" * 16) -> asyncio.StreamReader:
            call = call_frame("newEpoch", message, 5, retry=retry, client_id=client_id)
            return (await stay.enter_async_context(stranger(nodes, call)))[0]

        readers = []
        async with standing_still(nodes):
            for retry in (0, 1):
                readers.append(await asked(retry))
                await until_true(lambda: nodes.node.server.calls.counts["newEpoch"] == len(readers))
        first, second = [await next_frame(reader) for reader in readers]
        assert second == await next_frame(await asked(2)) == first
        assert pb.ResponseHeader.FromString(parts_of(first)[0]).status == 0
        of_another = await next_header(await asked(1, b"d" * 16))
        assert "Proposed epoch 1 <= last promise 1" in of_another.error_message


async def test_calls_that_come_one_behind_the_other_are_made_in_their_order(tmp_path: Path) -> None:
    """A whole segment, without waiting for an answer: each call only succeeds behind the one before it."""
    batches = 50
    async with on_a_node(tmp_path) as nodes:
        name_node = nodes.name_node()
        await name_node.format(force=False)
        await name_node.become_writer()
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
        said = b"".join(call_frame(*call, n) for n, call in enumerate(calls))
        async with stranger(nodes, said) as (reader, _):
            told = [await next_header(reader) for _ in calls]
        assert [header.error_message for header in told if header.status] == []
        assert {header.call_id for header in told} == set(range(len(calls)))


async def test_unknown_methods_protocols_and_versions_get_hadoops_errors(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        for method, protocol, version, expected in (
            ("fly", JOURNAL_PROTOCOL, 1, "org.apache.hadoop.ipc.RpcNoSuchMethodException"),
            ("isFormatted", "a.b.C", 1, "org.apache.hadoop.ipc.RpcNoSuchProtocolException"),
            ("isFormatted", JOURNAL_PROTOCOL, 2, "org.apache.hadoop.ipc.RPC$VersionMismatch"),
            ("newEpoch", JOURNAL_PROTOCOL, 1, "com.google.protobuf.UninitializedMessageException"),
        ):
            call = call_frame(method, pb.OfJournal(journal_id=JID), protocol=protocol, version=version)
            async with stranger(nodes, call) as (reader, _):
                told = await next_header(reader)
                assert (told.status, told.exception_class) == (1, expected)
