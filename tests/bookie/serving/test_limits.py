"""A real bookie with small limits: what is past each is refused or waits, in words, and nobody else suffers."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bookie.limits_config import MIB, Limits
from bookie.serving.data.append_handler import AppendHandler
from bookie.serving.data.call_handler import CALL_BYTES_MAX, TOO_MANY_OF_ALL
from bookie.serving.limits import admission
from bookie.serving.limits.password_proofs import FALSE_PROOF
from bookie.serving.service import MAINTENANCE_MAX, TOO_MUCH_MAINTENANCE, BookieService
from bookie.wire import codec
from bookie.wire.credentials import Purpose
from bookie.wire.data.framing import HEADER, SMALL_BODY_BYTES_MAX, FrameKind
from bookie.wire.messages import (
    AppendRequest,
    Credential,
    Frame,
    InfoRequest,
    LacReply,
    LacRequest,
    MaintainReply,
    MaintainRequest,
    MaintenanceAction,
    ReadReply,
    ReadRequest,
    Status,
)
from ledgers.integrity.ledger_keys import LedgerKey
from metadata.memory_store import MemoryStore
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import Client, served
from tests.support.aio import until_true
from tests.support.raw_data import RawConnection, raw_connection

ROOMY = {"peer_share": 1 / 8}
HALF_A_MESSAGE = HEADER.pack(8 * MIB, 0, FrameKind.APPEND) + bytes(MIB)


@asynccontextmanager
async def with_limits(
    tmp_path: Path, store: MemoryStore | None = None, **limits: Any
) -> AsyncIterator[Client]:
    async with served(tmp_path, store, limits=Limits(**(ROOMY | limits))) as client:
        yield client


async def told(client: Client) -> dict[str, Any]:
    """What the bookie tells of its limits."""
    reply = await client.bookie.upkeep.maintain(MaintainRequest(MaintenanceAction.STATUS))
    found: dict[str, Any] = json.loads(reply.report)["limits"]
    return found


async def still_serves(client: Client, ledger_id: int = 7) -> None:
    request = client.request(0, frame_of(ledger_id, [0]))
    assert [ack.status for ack in await client.append(request)] == [Status.OK]


async def test_past_the_connections_of_an_address_the_next_is_told_so_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    async with with_limits(tmp_path, connections_max=3 * 8) as client:
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(client.stream()) for _ in range(3)]
            async with raw_connection(client.bookie.address) as late:
                answer = await late.receive()
                assert answer is not None and answer.kind is FrameKind.GOODBYE
                assert answer.body == b"3 connections of this address are open, and no more may be"
            for stream in streams:
                assert (await stream.call(FrameKind.INFO, codec.encode(InfoRequest()))).kind is FrameKind.INFO
        await until_alone(client)
        await still_serves(client)
        connections = (await told(client))["connections"]
        assert (connections["most"], connections["past"]) == (3, 1)


async def test_half_a_message_holds_memory_until_another_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.05)
    async with with_limits(tmp_path, received_bytes_max=8 * MIB) as client:
        async with client.stream() as hostile:
            hostile.writer.write(HALF_A_MESSAGE)
            await until_held(client, "received_bytes", 8 * MIB)
            request = client.request(0, frame_of(7, [0], payload_bytes=100_000))
            assert [ack.status for ack in await client.append(request)] == [Status.OK]
            answer = await hostile.receive()
            assert answer is None or answer.kind is FrameKind.GOODBYE
        await until_held(client, "received_bytes", 0)
        limits = await told(client)
        assert limits["standstill_cuts"] == 1 and limits["received_bytes"]["past"] == 1


async def test_half_a_message_that_goes_on_in_time_is_taken(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client:
        body = b"".join(client.request(0, frame_of(7, [0], payload_bytes=3 * MIB)))
        async with client.stream() as stream:
            stream.writer.write(HEADER.pack(len(body), 0, FrameKind.APPEND) + body[:MIB])
            await until_held(client, "received_bytes", len(body))
            stream.writer.write(body[MIB:])
            found = await stream.acks()
            assert found is not None and [ack.status for ack in found] == [Status.OK]
            await until_held(client, "received_bytes", 0)


async def test_pages_that_nobody_takes_are_bounded_and_their_reader_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(admission, "STILL_SECONDS_MAX", 1.0)
    async with with_limits(tmp_path, untaken_bytes_max=8 * MIB) as client:
        await client.append(client.request(0, frame_of(7, [0], payload_bytes=4 * MIB - 100)))
        request = ReadRequest(client.incarnation, 7, 0, 0, 4 * MIB)
        async with client.stream() as hostile:
            for call in range(1, 200):
                hostile.send(FrameKind.READ, call, codec.encode(request))
            await until_cut(client)
        limits = await told(client)
        assert limits["untaken_bytes"]["most"] <= 8 * MIB + 4 * MIB, "at most one page turns out larger"
        await until_held(client, "untaken_bytes", 0)
        await until_held(client, "calls", 0)
        assert len((await client.read(7, 0, 0)).columns) == 1


async def test_who_does_not_take_its_answers_is_not_read_from(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client, client.stream() as hostile:
        pings = HEADER.pack(0, 0, FrameKind.PING) * 100_000
        hostile.writer.write(pings * 40)  # 48 MB: more than both kernels' buffers take
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                while True:
                    await hostile.writer.drain()
                    hostile.writer.write(pings)
        await still_serves(client)
        hostile.writer.transport.abort()


async def test_past_the_polls_the_oldest_is_answered_at_once(tmp_path: Path) -> None:
    async with with_limits(tmp_path, polls_max=2, peer_share=1) as client:
        await still_serves(client)
        async with client.stream() as stream:
            poll = codec.encode(LacRequest(client.incarnation, 7, wait_beyond=5, wait_ms=60_000))
            for call in (1, 2, 3):
                stream.send(FrameKind.LAST_ADD_CONFIRMED, call, poll)
            answer = await stream.receive()
            assert answer is not None and answer.call == 1
            assert codec.decode(LacReply, answer.body).status is Status.OK
            polls = (await told(client))["polls"]
            assert polls == {"now": 2, "most": 2, "limit": 2, "past": 1}
        await until_held(client, "polls", 0)


async def test_past_the_calls_of_all_the_next_is_refused(tmp_path: Path) -> None:
    async with with_limits(tmp_path, calls_max=2, peer_share=1) as client:
        await still_serves(client)
        async with client.stream() as stream:
            poll = codec.encode(LacRequest(client.incarnation, 7, wait_beyond=5, wait_ms=60_000))
            for call in (1, 2, 3):
                stream.send(FrameKind.LAST_ADD_CONFIRMED, call, poll)
            answer = await stream.receive()
            assert answer is not None and (answer.kind, answer.call) == (FrameKind.REFUSED, 3)
            assert answer.body == TOO_MANY_OF_ALL.encode()
            stream.send(FrameKind.CANCEL, 1)
            await until_held(client, "calls", 1)
            assert (await stream.call(FrameKind.INFO, codec.encode(InfoRequest()))).kind is FrameKind.INFO


@pytest.mark.parametrize("size", [CALL_BYTES_MAX + 1, SMALL_BODY_BYTES_MAX])
async def test_a_call_that_is_larger_than_any_is_refused(tmp_path: Path, size: int) -> None:
    async with with_limits(tmp_path) as client, client.stream() as stream:
        answer = await stream.call(FrameKind.READ, [bytes(size)])
        assert answer.kind is FrameKind.REFUSED and f"the call has {size} bytes".encode() in answer.body


async def test_nothing_but_appends_may_be_large(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client:
        async with client.stream() as stream:
            stream.writer.write(HEADER.pack(SMALL_BODY_BYTES_MAX + 1, 1, FrameKind.READ))
            assert await stream.receive() is None
        assert (await told(client))["received_bytes"]["most"] == 0
        await still_serves(client)


async def test_what_is_refused_or_greets_holds_nothing(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client, client.stream() as stream:
        for call in range(1, 4):
            stream.send(FrameKind.READ, call, [bytes(SMALL_BODY_BYTES_MAX)])
            answer = await stream.receive()
            assert answer is not None and answer.kind is FrameKind.REFUSED
        limits = await told(client)
        assert limits["received_bytes"]["now"] == 0 < limits["received_bytes"]["most"]


async def test_the_first_false_proof_ends_the_stream_and_the_next_welcome_takes_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "PENALTY_SECONDS", 0.3)
    async with with_limits(tmp_path) as client:
        false = Credential(LedgerKey(7, b"password").verifier, bytes(64))
        async with client.stream() as stream:
            frames = frame_of(8, [0]), frame_of(7, [0])._replace(credential=false), frame_of(9, [0])
            stream.send(FrameKind.APPEND, 0, client.request(0, *frames))
            assert await stream.statuses() == {0: Status.OK, 1: Status.UNAUTHORIZED, 2: Status.UNAUTHORIZED}
        began = asyncio.get_running_loop().time()
        await still_serves(client)
        assert asyncio.get_running_loop().time() - began >= 0.3
        assert (await told(client))["proofs_refused"] == 1


@pytest.mark.parametrize("kind", [FrameKind.READ, FrameKind.LAST_ADD_CONFIRMED])
async def test_a_false_proof_of_a_fence_ends_the_connection_too(tmp_path: Path, kind: FrameKind) -> None:
    async with with_limits(tmp_path) as client:
        false = Credential(LedgerKey(7, b"password").verifier, bytes(64))
        read = ReadRequest(client.incarnation, 7, 0, 0, 1, fence=True, credential=false)
        lac = LacRequest(client.incarnation, 7, fence=True, credential=false)
        request, of = (read, ReadReply) if kind is FrameKind.READ else (lac, LacReply)
        async with client.stream() as stream:
            answer = await stream.call(kind, codec.encode(request))
            assert answer.kind is kind
            reply: Any = codec.decode(of, answer.body)
            assert reply.status is Status.UNAUTHORIZED
            last = await stream.receive()
            assert last is not None and (last.kind, last.body) == (FrameKind.GOODBYE, FALSE_PROOF.encode())
            assert await stream.receive() is None


async def test_a_thousand_proofs_in_one_message_let_the_others_go_on_in_between(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client, client.stream() as stream:
        frames = [proven(client, stream, ledger_id) for ledger_id in range(1000, 1400)]
        loop, gaps, done = asyncio.get_running_loop(), list[float](), asyncio.Event()

        async def tick() -> None:
            before = loop.time()
            while not done.is_set():
                await asyncio.sleep(0)
                gaps.append(loop.time() - before)
                before = loop.time()

        ticking = asyncio.create_task(tick())
        stream.send(FrameKind.APPEND, 0, client.request(0, *frames))
        await stream.statuses(len(frames))
        done.set()
        await ticking
        assert len(gaps) > len(frames) / 8 / 2, "the loop turned while they were checked"


def proven(client: Client, stream: RawConnection, ledger_id: int) -> Frame:
    key = LedgerKey(ledger_id, b"own")
    credential = key.credential(Purpose.APPEND, client.incarnation, stream.welcome.nonce)
    return frame_of(ledger_id, [0])._replace(credential=credential)


async def test_more_ledgers_in_one_message_than_any_client_sends_are_refused(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client, client.stream() as stream:
        body = codec.encode(
            codec.decode(AppendRequest, b"".join(client.request(0, frame_of(7, [0]))))._replace(
                frames=(frame_of(7, [0]),) * (codec.FRAMES_MAX + 1)
            )
        )
        stream.send(FrameKind.APPEND, 0, body)
        answer = await stream.receive()
        assert answer is not None and answer.kind is FrameKind.GOODBYE
        assert f"the limit is {codec.FRAMES_MAX}".encode() in answer.body


async def test_past_the_tools_the_next_is_cut_and_clients_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "TOOLS_MAX", 1)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">HBBBI", 0, 0, 4, 0, 0)
    async with with_limits(tmp_path) as client, raw_connection(client.bookie.address) as first:
        first.writer.write(preface)
        assert await first.reader.read(1)
        async with raw_connection(client.bookie.address) as second:
            second.writer.write(preface)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await second.reader.readexactly(1)
        await still_serves(client)
        limits = await told(client)
        assert (limits["tools"]["limit"], limits["tools"]["past"]) == (1, 1)
        assert limits["connections"]["past"] == 0


async def test_past_the_acts_of_maintenance_the_next_is_told_to_come_later(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def maintain(_: MaintainRequest) -> Any:
        await may_end.wait()
        return MaintainReply(Status.OK)

    service = BookieService(None, maintain)  # type: ignore[arg-type]  # asks for nothing of the bookie
    request = MaintainRequest(MaintenanceAction.STATUS)
    busy = [asyncio.create_task(service._maintained(request)) for _ in range(MAINTENANCE_MAX)]
    await asyncio.sleep(0)
    refused = await service._maintained(request)
    assert refused.status is Status.TOO_MANY_REQUESTS
    assert refused.detail == TOO_MUCH_MAINTENANCE.format(MAINTENANCE_MAX)
    may_end.set()
    assert [reply.status for reply in await asyncio.gather(*busy)] == [Status.OK] * MAINTENANCE_MAX
    assert (await service._maintained(request)).status is Status.OK


async def until_held(client: Client, name: str, count: int) -> None:
    async def holds() -> bool:
        return bool((await told(client))[name]["now"] == count)

    await until_true(holds)


async def until_cut(client: Client) -> None:
    async def is_cut() -> bool:
        return bool((await told(client))["standstill_cuts"])

    await until_true(is_cut)


async def until_alone(client: Client) -> None:
    await until_held(client, "connections", 0)


async def test_a_message_is_not_left_behind_that_comes_in_the_turn_in_which_the_one_before_it_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[bytes] = []
    has_taken = AppendHandler._has_taken

    def comes_first(self: AppendHandler, task: asyncio.Task[None]) -> None:
        while late:
            self.received(late.pop())
        has_taken(self, task)

    monkeypatch.setattr(AppendHandler, "_has_taken", comes_first)
    async with with_limits(tmp_path) as client:
        late.append(b"".join(client.request(1, frame_of(7, [1]))))
        async with client.stream() as stream:
            stream.send(FrameKind.APPEND, 0, client.request(0, frame_of(7, [0])))  # whose ledger is looked up
            assert list(await stream.statuses(2)) == [0, 1]
