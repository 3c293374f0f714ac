"""Every call of a bookie by every role, and with every kind of wrong credential, over TLS as it is served.

The calls are taken from the descriptors, so that a new one without a rule fails here.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_reflection.v1alpha import reflection_pb2

from bookie.serving import grpc_tools, service
from bookie.wire import (
    AppendRequest,
    HoldingsRequest,
    LacRequest,
    ReadRequest,
    ScanRequest,
    codec,
    grpc_methods,
)
from bookie.wire.data.framing import FrameKind
from bookie.wire.messages import (
    HoldingsReply,
    InfoRequest,
    LacReply,
    MaintainRequest,
    MaintenanceAction,
    NotesRequest,
    ReadReply,
    Status,
)
from bookie.wire.trust.certificates import CA, CERTIFICATE, KEY, Certificates
from bookie.wire.trust.identity import Peer
from bookie.wire.trust.roles import CALLS, EVERYTHING, FREE, MAY, METHODS, ROUTES, Right, Role
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import Client, inside, served
from tests.support.aio import until_true
from tests.support.authority import TestAuthority, wrong_credentials
from tests.support.present import there
from tests.support.raw_data import RawConnection, after_handshake, raw_connection

SAID_BY_BOOKIES = {FrameKind.SERVER_HELLO, FrameKind.GOODBYE, FrameKind.ACKS, FrameKind.REFUSED}

Body = Iterable[bytes | memoryview]


def calls_of(incarnation: str, ledger_id: int = 7) -> dict[str, tuple[FrameKind, Right, Body]]:
    """Every call there is, those that fence apart, and the right it takes."""
    append = AppendRequest(incarnation, 0, (frame_of(ledger_id, [0]),))
    other = 8 if ledger_id == 7 else ledger_id
    return {
        "append": (FrameKind.APPEND, Right.APPEND, codec.encode(append)),
        "read": (
            FrameKind.READ,
            Right.READ,
            codec.encode(ReadRequest(incarnation, ledger_id, 0, 0, 1024)),
        ),
        "read, fencing": (
            FrameKind.READ,
            Right.FENCE,
            codec.encode(ReadRequest(incarnation, other, 0, 0, 1024, fence=True)),
        ),
        "scan": (
            FrameKind.SCAN,
            Right.READ,
            codec.encode(ScanRequest(incarnation, ledger_id, 0, 0, 1024, 1024)),
        ),
        "LAC": (
            FrameKind.LAST_ADD_CONFIRMED,
            Right.READ,
            codec.encode(LacRequest(incarnation, ledger_id)),
        ),
        "LAC, fencing": (
            FrameKind.LAST_ADD_CONFIRMED,
            Right.FENCE,
            codec.encode(LacRequest(incarnation, other, fence=True)),
        ),
        "holdings": (
            FrameKind.HOLDINGS,
            Right.READ,
            codec.encode(HoldingsRequest(incarnation, ledger_id, 0, 0, 1024)),
        ),
        "info": (FrameKind.INFO, Right.INFO, codec.encode(InfoRequest())),
    }


REPLIES: dict[FrameKind, Any] = {
    FrameKind.READ: ReadReply,
    FrameKind.SCAN: ReadReply,
    FrameKind.LAST_ADD_CONFIRMED: LacReply,
    FrameKind.HOLDINGS: HoldingsReply,
}


async def asked(raw: RawConnection, kind: FrameKind, body: Body) -> tuple[Status, str]:
    """What the bookie says to a call, and why; one of a kind that is refused is UNAUTHORIZED, too."""
    if kind is FrameKind.APPEND:
        raw.send(kind, 0, body)
        ack = there(await raw.acks())[0]
        return ack.status, ack.detail
    answer = await raw.call(kind, body)
    if answer.kind is FrameKind.REFUSED:
        return Status.UNAUTHORIZED, bytes(answer.body).decode()
    if kind is FrameKind.INFO:
        return Status.OK, ""
    reply = codec.decode(REPLIES[kind], answer.body)
    return reply.status, reply.detail


async def is_let(raw: RawConnection, kind: FrameKind, body: Body) -> bool:
    """Whether the bookie does what is asked, and not refuses it for what we are."""
    status, why = await asked(raw, kind, body)
    assert (status is Status.UNAUTHORIZED) is ("may not" in why), (status, why)
    return status is not Status.UNAUTHORIZED


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
async def secure(tmp_path: Path, authority: TestAuthority) -> AsyncIterator[Client]:
    """Of a bookie with certificates."""
    async with served(tmp_path, certificates=authority.bookie("b1")) as client:
        yield client


def channel_of(address: str, directory: Path | None, authority: Path) -> grpc.aio.Channel:
    trusted = (authority / CA).read_bytes()
    if directory is None:
        credentials = grpc.ssl_channel_credentials(trusted)
    else:
        pem = ((directory / KEY).read_bytes(), (directory / CERTIFICATE).read_bytes())
        credentials = grpc.ssl_channel_credentials(trusted, *pem)
    return grpc.aio.secure_channel(address, credentials, options=grpc_methods.CHANNEL_OPTIONS)


METHOD_BODIES = {
    grpc_methods.INFO: b"".join(codec.encode(InfoRequest())),
    grpc_methods.MAINTAIN: b"".join(codec.encode(MaintainRequest(MaintenanceAction.STATUS))),
    grpc_methods.NOTES: b"".join(codec.encode(NotesRequest(""))),
    grpc_methods.HEALTH: b"",
    grpc_methods.HEALTH_WATCH: b"",
    grpc_methods.REFLECTION: reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString(),
}


async def answered(channel: grpc.aio.Channel, method: str) -> None:
    """Asks as the method is asked; raises where it is refused. Nobody may watch: who has the right is told so."""
    body = METHOD_BODIES[method]
    if method == grpc_methods.REFLECTION:
        ask: Any = channel.stream_stream(method)
        assert [answer async for answer in ask(iter([body]), timeout=20)]
    elif method == grpc_methods.HEALTH_WATCH:
        watch: Any = channel.unary_stream(method)
        try:
            assert not [answer async for answer in watch(body, timeout=20)]
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
    else:
        one: Any = channel.unary_unary(method)
        await one(body, timeout=20)


# ----------------------------------------------------------------------------------------------


def test_every_kind_of_frame_has_a_rule() -> None:
    assert CALLS.keys() | FREE | SAID_BY_BOOKIES == set(FrameKind)
    assert not CALLS.keys() & (FREE | SAID_BY_BOOKIES)
    assert {kind for kind, _, _ in calls_of("i").values()} == CALLS.keys()
    asked = {right for _, right, _ in calls_of("i").values()}
    # Tried in test_deleting_by_roles and test_accepting_loss.
    of_metadata = {Right.DELETE, Right.OVERRIDE, Right.ACCEPT_LOSS}
    assert asked | set(METHODS.values()) | set(ROUTES.values()) | of_metadata == EVERYTHING


def test_every_grpc_method_has_a_rule() -> None:
    handlers: Any = service.BookieService(None).handlers()  # type: ignore[arg-type]  # nothing is asked
    tools: Any = grpc_tools.GrpcTools(Peer, str).handlers()
    found = {method for one in (handlers, *tools) for method in one._method_handlers}
    assert found == METHODS.keys()
    assert METHOD_BODIES.keys() == METHODS.keys()


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_may_do_what_the_table_says_over_the_data_protocol(
    secure: Client, authority: TestAuthority, role: Role
) -> None:
    tls = Certificates(authority.of(role)).client
    for name, (kind, right, body) in calls_of(secure.incarnation).items():
        async with after_handshake(secure.bookie.address, tls) as raw:
            assert await is_let(raw, kind, body) is (right in MAY[role]), name


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_may_do_what_the_table_says_over_grpc(
    secure: Client, authority: TestAuthority, role: Role
) -> None:
    mine = authority.of(role)
    async with channel_of(secure.bookie.address, mine, mine) as channel:
        for method, right in METHODS.items():
            if right in MAY[role]:
                await answered(channel, method)
                continue
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await answered(channel, method)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert refused.value.details() == (
                f"{role.value}:someone may not {right.value}: that takes a certificate of role admin"
            )


async def test_without_certificates_everybody_may_do_everything(client: Client) -> None:
    for kind, _, body in calls_of(client.incarnation).values():
        async with after_handshake(client.bookie.address) as raw:
            assert await is_let(raw, kind, body)


@pytest.mark.parametrize("call", calls_of(""))
async def test_with_wrong_credentials_nobody_gets_an_answer_over_the_data_protocol(
    secure: Client, authority: TestAuthority, tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, _, body = calls_of(secure.incarnation)[call]
    for wrong, tls in wrong_credentials(tmp_path, authority, monkeypatch).items():
        assert not await is_answered(secure.bookie.address, tls, kind, body), wrong
    async with after_handshake(secure.bookie.address, Certificates(authority.of(Role.ADMIN)).client) as raw:
        assert await is_let(raw, kind, body)


async def is_answered(address: str, tls: ssl.SSLContext | None, kind: FrameKind, body: Body) -> bool:
    """Whether anything comes that a client understands."""
    try:
        async with after_handshake(address, tls) as raw:
            await raw.call(kind, body)
    except (OSError, ValueError, AssertionError):  # cut while it greets, or no frame that it knows
        return False
    return True


@pytest.mark.parametrize("method", METHODS)
async def test_with_wrong_credentials_nobody_gets_an_answer_over_grpc(
    secure: Client, authority: TestAuthority, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, right = secure.bookie.address, authority.of(Role.ADMIN)
    foreign = TestAuthority(tmp_path, "another").of(Role.ADMIN)
    expired = authority.expired(Role.ADMIN, monkeypatch)
    channels = {
        "plain text": grpc.aio.insecure_channel(address, options=grpc_methods.CHANNEL_OPTIONS),
        "no certificate": channel_of(address, None, right),
        "another authority's certificate": channel_of(address, foreign, right),
        "an expired certificate": channel_of(address, expired, right),
    }
    for wrong, channel in channels.items():
        async with channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await answered(channel, method)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE, wrong


async def test_a_certificate_that_names_nobody_is_told_so(secure: Client, authority: TestAuthority) -> None:
    tls = Certificates(authority.nameless()).client
    async with raw_connection(secure.bookie.address, tls) as raw:
        answer = await raw.receive()
        assert answer is not None and answer.kind is FrameKind.GOODBYE
        assert b"names nobody" in answer.body


async def test_the_socket_behind_the_port_serves_nobody_who_did_not_come_through_it(
    secure: Client, authority: TestAuthority
) -> None:
    async with channel_of(secure.bookie.address, *[authority.of(Role.ADMIN)] * 2) as channel:
        known: Any = channel.unary_unary(grpc_methods.MAINTAIN)
        await known(METHOD_BODIES[grpc_methods.MAINTAIN], timeout=20)
        (name,) = inside()
        async with grpc.aio.insecure_channel(f"unix-abstract:{name}") as stranger:
            for method in METHOD_BODIES:
                with pytest.raises(grpc.aio.AioRpcError, match="a stranger on this host may not"):
                    await answered(stranger, method)


async def has(client: Client, what: str, count: int) -> bool:
    """Whether the bookie tells of so many."""
    reply = await client.bookie.upkeep.maintain(MaintainRequest(MaintenanceAction.STATUS))
    return bool(json.loads(reply.report)["limits"][what]["now"] == count)


async def test_connections_that_never_greet_are_counted_and_cut(
    secure: Client, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.wire.data.sockets.HANDSHAKE_SECONDS_MAX", 3.0)
    host, port = secure.bookie.address.split(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
    await until_true(lambda: has(secure, "strangers", 5))
    for reader, writer in silent:
        assert await reader.read() == b""
        writer.close()
    async with after_handshake(secure.bookie.address, Certificates(authority.of(Role.CLIENT)).client):
        assert await has(secure, "connections", 1)
