"""gRPC's own tools ask a bookie: is it healthy, and what does it serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from bookie.serving import grpc_tools
from bookie.wire import rpc
from tests.bookie.serving.served import Client, served

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def health(client: Client, service: str = "") -> int:
    async with grpc.aio.insecure_channel(client.bookie.address, options=rpc.CHANNEL_OPTIONS) as channel:
        ask: Any = channel.unary_unary(
            rpc.HEALTH,
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        return int((await ask(health_pb2.HealthCheckRequest(service=service), timeout=20)).status)


async def reflected(client: Client, *requests: Any) -> list[Any]:
    async with grpc.aio.insecure_channel(client.bookie.address, options=rpc.CHANNEL_OPTIONS) as channel:
        ask: Any = channel.stream_stream(
            rpc.REFLECTION,
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        return [answer async for answer in ask(iter(requests), timeout=20)]


async def test_a_service_that_is_none_is_said_to_be_none(client: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="no service x is here") as told:
        await health(client, "x")
    assert told.value.code() is grpc.StatusCode.NOT_FOUND


async def test_what_is_served_is_listed_and_described(client: Client) -> None:
    listing, file = await reflected(
        client,
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=rpc.SERVICE),
    )
    names = {one.name for one in listing.list_services_response.service}
    assert names == {rpc.SERVICE, rpc.HEALTH_SERVICE, rpc.REFLECTION_SERVICE}
    described = FileDescriptorProto.FromString(file.file_descriptor_response.file_descriptor_proto[0])
    (service,) = described.service
    assert {f"/{rpc.SERVICE}/{method.name}" for method in service.method} == {
        rpc.INFO,
        rpc.MAINTAIN,
        rpc.NOTES,
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
        grpc.aio.insecure_channel(client.bookie.address, options=rpc.CHANNEL_OPTIONS) as channel,
    ):
        call: Any = channel.stream_stream(rpc.REFLECTION)(timeout=20)
        with pytest.raises(grpc.aio.AioRpcError, match=r"a reflection ends after 0\.2 seconds"):
            await call.read()
