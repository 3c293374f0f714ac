"""One port for clients and for tools: the data protocol, gRPC behind it, and strangers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from bookie.serving import grpc_tools
from bookie.serving.data import data_session, protocol_detection
from bookie.wire import codec, grpc_methods
from bookie.wire.data.framing import FrameKind
from bookie.wire.data.handshake import ClientHello
from bookie.wire.messages import InfoReply, InfoRequest, LacRequest
from tests.bookie.entries import frame_of
from tests.bookie.messages import whole
from tests.bookie.serving.served import Client, inside, served
from tests.support.aio import until_true
from tests.support.raw_data import raw_connection


async def said_to(client: Client, data: bytes) -> bytes:
    """All that is answered to these bytes, until the bookie ends the connection."""
    async with raw_connection(client.bookie.address) as raw:
        raw.writer.write(data)
        return await raw.reader.read()


async def test_tools_that_speak_grpc_are_served_on_the_same_port(client: Client) -> None:
    async with grpc.aio.insecure_channel(
        client.bookie.address, options=grpc_methods.CHANNEL_OPTIONS
    ) as channel:
        ask: Any = channel.unary_unary(grpc_methods.INFO)
        for _ in range(3):
            reply = codec.decode(InfoReply, await ask(whole(codec.encode(InfoRequest())), timeout=20))
            assert reply.incarnation == client.incarnation


async def test_a_client_of_a_version_to_come_is_told_which_versions_are_spoken(client: Client) -> None:
    async with raw_connection(client.bookie.address) as raw:
        raw.send(FrameKind.HELLO, 0, [ClientHello(7, 9).encode()])
        answer = await raw.receive()
        assert answer is not None and answer.kind is FrameKind.GOODBYE
        assert b"was offered 7 to 9: run programs of one version" in answer.body
        assert await raw.receive() is None


async def test_strangers_are_told_goodbye_or_cut_and_nobody_else_notices(client: Client) -> None:
    assert await said_to(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
    assert await said_to(client, os.urandom(500)) == b""
    request = client.request(0, frame_of(7, [0]))
    async with raw_connection(client.bookie.address) as raw:
        raw.send(FrameKind.APPEND, 0, request)  # without a hello
        answer = await raw.receive()
        assert answer is not None and answer.body == b"the first frame of a connection must be a client hello"
    assert [ack.status.name for ack in await client.append(request)] == ["OK"]


@pytest.mark.parametrize("begins", [b"", b"P", b"PR", b"\x00\x00\x00"])
async def test_one_that_does_not_say_hello_is_cut(
    tmp_path: Path, begins: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_detection, "HELLO_SECONDS_MAX", 0.1)
    monkeypatch.setattr(data_session, "HELLO_SECONDS_MAX", 0.1)
    async with served(tmp_path) as client:
        assert await asyncio.wait_for(said_to(client, begins), 5) == b""
        hello = b"".join([(200).to_bytes(4, "little"), bytes(4), (1).to_bytes(4, "little"), b"{"])
        assert await asyncio.wait_for(said_to(client, hello), 5) == b"", "half a hello"


async def test_a_call_that_nobody_waits_for_any_more_ends_at_the_bookie(client: Client) -> None:
    await client.append(client.request(0, frame_of(7, [0])))
    async with client.stream() as stream:
        before = len(asyncio.all_tasks())
        poll = whole(codec.encode(lac_poll(client)))
        for call in range(1, 6):
            stream.send(FrameKind.LAST_ADD_CONFIRMED, call, [poll])
        await until_tasks(before + 5)
        for call in range(1, 6):
            stream.send(FrameKind.CANCEL, call)
        await until_tasks(before)
        assert (await stream.call(FrameKind.INFO, codec.encode(InfoRequest()))).kind is FrameKind.INFO


async def test_a_bookie_that_has_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    ours: set[str] = set()
    before = inside()
    async with served(tmp_path) as client:
        ours.update(inside() - before)
        async with client.stream() as stream:
            await stream.call(FrameKind.INFO, codec.encode(InfoRequest()))
    assert ours and not ours & inside()


def lac_poll(client: Client) -> LacRequest:
    return LacRequest(client.incarnation, 7, wait_beyond=5, wait_ms=60_000)


async def until_tasks(count: int) -> None:
    async def are_as_many() -> bool:
        return len(asyncio.all_tasks()) == count

    await until_true(are_as_many)


# --- gRPC's own tools


SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def health(client: Client, service: str = "") -> int:
    async with grpc.aio.insecure_channel(
        client.bookie.address, options=grpc_methods.CHANNEL_OPTIONS
    ) as channel:
        ask: Any = channel.unary_unary(
            grpc_methods.HEALTH,
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        return int((await ask(health_pb2.HealthCheckRequest(service=service), timeout=20)).status)


async def reflected(client: Client, *requests: Any) -> list[Any]:
    async with grpc.aio.insecure_channel(
        client.bookie.address, options=grpc_methods.CHANNEL_OPTIONS
    ) as channel:
        ask: Any = channel.stream_stream(
            grpc_methods.REFLECTION,
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        return [answer async for answer in ask(iter(requests), timeout=20)]


async def test_a_service_that_is_none_is_said_to_be_none(client: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="this server has no service x") as told:
        await health(client, "x")
    assert told.value.code() is grpc.StatusCode.NOT_FOUND


async def test_what_is_served_is_listed_and_described(client: Client) -> None:
    listing, file = await reflected(
        client,
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=grpc_methods.SERVICE),
    )
    names = {one.name for one in listing.list_services_response.service}
    assert names == {grpc_methods.SERVICE, grpc_methods.HEALTH_SERVICE, grpc_methods.REFLECTION_SERVICE}
    described = FileDescriptorProto.FromString(file.file_descriptor_response.file_descriptor_proto[0])
    (service,) = described.service
    assert {f"/{grpc_methods.SERVICE}/{method.name}" for method in service.method} == {
        grpc_methods.INFO,
        grpc_methods.MAINTAIN,
        grpc_methods.NOTES,
    }


async def test_a_reflection_answers_so_many_questions_and_then_ends(client: Client) -> None:
    one = reflection_pb2.ServerReflectionRequest(list_services="")
    asked = [one] * (grpc_tools.REFLECTION_REQUESTS_MAX + 5)
    assert len(await reflected(client, *asked)) == grpc_tools.REFLECTION_REQUESTS_MAX


async def test_a_reflection_that_asks_nothing_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_tools, "REFLECTION_SECONDS_MAX", 0.2)
    async with (
        served(tmp_path) as client,
        grpc.aio.insecure_channel(client.bookie.address, options=grpc_methods.CHANNEL_OPTIONS) as channel,
    ):
        call: Any = channel.stream_stream(grpc_methods.REFLECTION)(timeout=20)
        with pytest.raises(grpc.aio.AioRpcError, match=r"a reflection ends after 0\.2 seconds"):
            await call.read()
