"""Each bound of a JournalNode, at it and one past it: a clear refusal, and everybody else is served as before."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from qjm_compat.errors import BadRequest
from qjm_compat.hadoop.node_limits import NodeLimits
from qjm_compat.hadoop.pages import node_pages
from qjm_compat.hadoop.server import connections, load_shedding
from qjm_compat.hadoop.server.call_dispatcher import REMEMBERED_MAX, Retries
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import CLIENT_ID_BYTES_MAX, FATAL, Caller
from tests.qjm_compat.hadoop.nodes import (
    CONTEXT,
    GREETING,
    JID,
    NameNode,
    Nodes,
    active,
    call_frame,
    is_served,
    namespace,
    next_frame,
    next_header,
    on_a_node,
    standing_still,
    stranger,
    words_of_refusal,
)
from tests.qjm_compat.journals import frames
from tests.support.aio import until_true

KIB, MIB = 1024, 1024 * 1024


def held(nodes: Nodes) -> int:
    return sum(one.held_bytes for one in nodes.node.server.connections)


async def test_who_holds_most_gives_way_when_all_hold_too_much_and_the_others_go_on(tmp_path: Path) -> None:
    large = b"\x00\x0f\x00\x00" + b"x" * (600 * KIB - 4)
    async with on_a_node(tmp_path, NodeLimits(buffered_bytes_max=MIB)) as nodes:
        small = call_frame("isFormatted", pb.OfJournal(journal_id=pb.JournalId(identifier="j" * 500 * KIB)))
        at_the_limit = MIB - len(large)
        async with (
            stranger(nodes, large) as (hog, _),
            stranger(nodes, small[:at_the_limit]) as (other, writer),
        ):
            await until_true(lambda: held(nodes) == MIB)
            assert len(nodes.node.server.connections) == 2
            writer.write(small[at_the_limit : at_the_limit + 1])
            assert b"and this one most: send less at a time" in await words_of_refusal(hog)
            writer.write(small[at_the_limit + 1 :])
            assert b"bad journal id" in await next_frame(other)
            assert await is_served(nodes)


async def test_a_connection_has_so_many_calls_under_way_and_the_next_begins_when_one_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CALLS_A_CONNECTION_MAX", 3)
    async with on_a_node(tmp_path) as nodes:
        name_node = await active(nodes)
        server = nodes.node.server
        async with standing_still(nodes):
            calls = [asyncio.ensure_future(name_node.promised()) for _ in range(5)]
            await until_true(lambda: server.load.calls == 3)
            assert await is_served(nodes)
            assert (server.load.calls, server.calls.counts["getJournalState"]) == (3, 1 + 3)
        assert await asyncio.gather(*calls) == [1] * 5
        assert (server.load.calls, server.load.calls_bytes) == (0, 0)


async def test_a_connection_without_calls_under_way_begins_one_however_many_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_shedding, "LEFT_BEHIND_MAX", 1)
    monkeypatch.setattr(load_shedding, "CALLS_MAX", 4)
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.01)
    async with on_a_node(tmp_path) as nodes:
        name_node = await active(nodes)
        server, another, third = nodes.node.server, nodes.name_node(), nodes.name_node()
        async with standing_still(nodes):
            calls = [asyncio.ensure_future(name_node.promised()) for _ in range(6)]
            await until_true(lambda: server.load.calls == 4)
            assert (await another.manifest()).logs
            calls.append(asyncio.ensure_future(another.promised()))
            await until_true(lambda: server.load.calls == 5)
            calls.append(asyncio.ensure_future(third.promised()))  # waits for all of them
            await until_true(lambda: any(one._waiting for one in server.connections))
            assert server.load.calls == 5
        assert await asyncio.gather(*calls) == [1] * 8


async def test_calls_under_way_count_as_held_also_when_their_connection_is_gone(tmp_path: Path) -> None:
    async with on_a_node(tmp_path, NodeLimits(buffered_bytes_max=MIB)) as nodes:
        await active(nodes)
        batch = pb.Journal(
            info=pb.RequestInfo(journal_id=JID, epoch=1, serial=90),
            first_txid=5,
            num_txns=1,
            records=b"x" * 300 * KIB,
            segment_txid=3,
        )
        flood = b"".join(call_frame("journal", batch, call_id) for call_id in range(4))
        async with standing_still(nodes):
            async with stranger(nodes, flood) as (reader, _):
                assert b"and this one most" in await words_of_refusal(reader)
            assert 0 < nodes.node.server.load.calls_bytes <= MIB
            assert await is_served(nodes)
        await until_true(lambda: nodes.node.server.load.calls_bytes == 0)


async def wrote_much(nodes: Nodes, batches: int) -> NameNode:
    """A NameNode with a segment of so many MiB, some of which are at hand for readers."""
    writer = nodes.name_node()
    await writer.format(force=False)
    await writer.become_writer()
    await writer.start(1)
    for txid in range(1, 40 * batches, 40):
        await writer.ask(
            "journal",
            first_txid=txid,
            num_txns=40,
            records=frames(txid, 40, path_bytes=25 * KIB),
            segment_txid=1,
        )
    return writer


async def deaf(address: str, said: bytes) -> socket.socket:
    """A peer that takes little and reads nothing."""
    host, _, port = address.rpartition(":")
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
    peer.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(peer, (host, int(port)))
    await loop.sock_sendall(peer, said)
    return peer


async def test_who_does_not_take_answers_is_cut_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(connections, "REPLIES_BYTES_MAX", MIB)
    monkeypatch.setattr(connections, "REPLY_SECONDS_MAX", 0.5)
    async with on_a_node(tmp_path) as nodes:
        writer = await wrote_much(nodes, 6)
        server = nodes.node.server
        ask = pb.GetJournaledEdits(journal_id=JID, since_txid=1, max_txns=1000)
        frames = b"".join(call_frame("getJournaledEdits", ask, call_id) for call_id in range(8))
        with await deaf(nodes.node.address, GREETING + CONTEXT + frames):
            await until_true(lambda: server.calls.counts["getJournaledEdits"] == 8)
            assert await is_served(nodes)
            assert await writer.promised() == 1
            await until_true(lambda: len(server.connections) == 1)


async def test_who_says_nothing_is_cut_unless_a_call_of_its_own_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(connections, "IDLE_SECONDS_MAX", 0.1)
    async with on_a_node(tmp_path) as nodes:
        name_node = await active(nodes)
        async with standing_still(nodes):
            waiting = asyncio.ensure_future(name_node.promised())
            await until_true(lambda: nodes.node.server.load.calls == 1)
            async with stranger(nodes) as (idle, _):
                assert await idle.read() == b""
        assert await waiting == 1


async def test_as_many_journals_as_allowed_are_served_and_one_more_is_refused(tmp_path: Path) -> None:
    async with on_a_node(tmp_path, NodeLimits(journals_max=2)) as nodes:
        one = nodes.name_node()

        async def formatted(name: str) -> None:
            await one.ask("format", journal_id=pb.JournalId(identifier=name), namespace=namespace())

        for name in ("nobody-1", "nobody-2", "nobody-3"):  # asked for, and there is no such journal
            await one.ask("isFormatted", journal_id=pb.JournalId(identifier=name))
        await formatted("ns1")
        await formatted("ns2")
        with pytest.raises(BadRequest, match="already serves 2 journals, the maximum"):
            await formatted("ns3")
        await one.become_writer()
        await one.start(1)
        await one.write(1, 1, 2)


async def test_as_many_segments_as_allowed_are_sent_at_a_time_and_one_more_is_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, go_on, begun = node_pages.measured, asyncio.Event(), []

    async def held_back(*arguments: Any, **named: Any) -> node_pages.File:
        begun.append(arguments)
        await go_on.wait()
        return await measured(*arguments, **named)

    monkeypatch.setattr(node_pages, "measured", held_back)
    async with on_a_node(tmp_path, NodeLimits(transfers_max=2)) as nodes:
        await active(nodes)
        transfers = [asyncio.ensure_future(nodes.get("jid=ns1&segmentTxId=1")) for _ in range(2)]
        await until_true(lambda: len(begun) == 2)
        status, _, said = await nodes.get("jid=ns1&segmentTxId=1")
        assert (status, said) == (503, b"2 segments are being sent: try again\n")
        assert await is_served(nodes)
        go_on.set()
        assert [status for status, *_ in await asyncio.gather(*transfers)] == [200, 200]
        assert (await nodes.get("jid=ns1&segmentTxId=1"))[0] == 200


@pytest.mark.parametrize(
    "bytes_per_second_min",
    [node_pages.SEGMENT_BYTES_PER_SECOND_MIN, 1000 * MIB],
    ids=["of one piece", "of the whole"],
)
async def test_who_takes_a_segment_in_too_slowly_gives_its_place_to_others(
    bytes_per_second_min: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_pages, "PIECE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(node_pages, "SEGMENT_BYTES_PER_SECOND_MIN", bytes_per_second_min)
    async with on_a_node(tmp_path, NodeLimits(transfers_max=1)) as nodes:
        await wrote_much(nodes, 12)
        ask = b"GET /getJournal?jid=ns1&segmentTxId=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with await deaf(nodes.node.http_address, ask):

            async def is_refused() -> bool:
                return (await nodes.get("jid=nobody&segmentTxId=1"))[0] == 503

            async def has_a_place() -> bool:
                return (await nodes.get("jid=ns1&segmentTxId=1"))[0] == 200

            await until_true(is_refused)
            await until_true(has_a_place)


async def test_a_writer_goes_on_under_a_flood_of_calls(tmp_path: Path) -> None:
    """Ten strangers ask as fast as they can, some without taking an answer."""
    async with on_a_node(tmp_path) as nodes:
        writer = await active(nodes)
        flood = call_frame("getEditLogManifest", pb.GetManifest(journal_id=JID, since_txid=1)) * 50
        floods = [asyncio.create_task(pour(nodes, flood, reads=n % 2 == 0)) for n in range(10)]
        await until_true(lambda: nodes.node.server.calls.counts["getEditLogManifest"] > 100)
        for txid in range(5, 15):
            await writer.write(3, txid, txid, committed=txid - 1)
        await writer.finalize(3, 14)
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)
        assert [(log.start_txid, log.end_txid) for log in (await writer.manifest()).logs] == [(1, 2), (3, 14)]


async def pour(nodes: Nodes, flood: bytes, *, reads: bool) -> None:
    async with stranger(nodes) as (reader, writer):
        taking = asyncio.ensure_future(reader.read()) if reads else None
        try:
            while True:
                writer.write(flood)
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            if taking is not None:
                taking.cancel()


@pytest.mark.parametrize("beyond", [0, 1])
async def test_a_frame_as_large_as_allowed_is_taken_and_one_byte_more_ends_its_connection_only(
    beyond: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = 100 * KIB
    monkeypatch.setattr(connections, "FRAME_BYTES_MAX", large)

    def padded(size: int) -> bytes:
        """A call in a frame of so many bytes behind its length."""
        short = call_frame("isFormatted", pb.OfJournal(journal_id=pb.JournalId(identifier="j" * (90 * KIB))))
        name = "j" * (90 * KIB + size - (len(short) - 4))
        return call_frame("isFormatted", pb.OfJournal(journal_id=pb.JournalId(identifier=name)))

    async with on_a_node(tmp_path) as nodes:
        frame = padded(large + beyond)
        assert len(frame) == 4 + large + beyond
        async with stranger(nodes, frame) as (reader, _):
            if beyond:
                said = await words_of_refusal(reader)
                assert b"a frame of 102401 bytes was announced; at most 102400 are allowed" in said
            else:
                assert b"bad journal id" in await next_frame(reader)
        assert await is_served(nodes)


@pytest.mark.parametrize("beyond", [0, 1])
async def test_a_client_id_has_a_bound_since_it_is_kept(beyond: int, tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        client_id = bytes(CLIENT_ID_BYTES_MAX + beyond)
        frame = call_frame("isFormatted", pb.OfJournal(journal_id=JID), client_id=client_id)
        async with stranger(nodes, frame) as (reader, _):
            told = await next_header(reader)
            assert (told.status, "16 bytes" in told.error_message) == (
                (FATAL, True) if beyond else (0, False)
            )
        assert await is_served(nodes)


def test_the_answers_of_so_many_calls_are_remembered_and_the_oldest_goes_first() -> None:
    kept, told = Retries(), list[bytes]()
    callers = [Caller(number, b"c" * 16, 0) for number in range(REMEMBERED_MAX + 1)]
    for caller in callers:
        kept.remembering(caller, lambda _: None)(b"answer of %d" % caller.call_id)
    again = [Caller(caller.call_id, caller.client_id, 1) for caller in callers]
    assert not kept.is_answered(again[0], told.append)
    assert kept.is_answered(again[1], told.append) and kept.is_answered(again[-1], told.append)
    assert told == [b"answer of 1", b"answer of %d" % REMEMBERED_MAX]
