"""Both ends of a connection, over sockets and in one process: what is sent arrives, nobody is read who is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from bookie.serving.data.data_session import UNTAKEN_BYTES_MAX
from bookie.wire.data import data_connection as module
from bookie.wire.data import in_process, sockets
from bookie.wire.data.data_connection import WRITE_BUFFER_BYTES_MAX, Connection
from bookie.wire.data.framing import FRAMES_AT_ONCE_MAX, Body, FrameKind, framed
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import Role
from tests.support.aio import until_true
from tests.support.authority import TestAuthority

MIB = 1024 * 1024


class Ear:
    """Keeps what it hears."""

    def __init__(
        self, *, asks: bool, silence_seconds_max: float = 20.0, untaken_bytes_max: int | None = None
    ) -> None:
        self.heard: list[tuple[FrameKind, int, Body]] = []
        self.why: list[str] = []
        self.times_writable = 0
        self.fails_with: Exception | None = None
        self.connection = Connection(
            self,
            asks=asks,
            silence_seconds_max=silence_seconds_max,
            untaken_bytes_max=untaken_bytes_max,
        )
        self.connection.reader.handshake_done()

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        if self.fails_with is not None:
            raise self.fails_with
        self.heard.append((kind, call, body))

    def writable(self) -> None:
        self.times_writable += 1

    def lost(self, why: str) -> None:
        self.why.append(why)


async def until(condition: Callable[[], object]) -> None:
    async def holds() -> bool:
        return bool(condition())

    await until_true(holds, pause_seconds=0.002)


@asynccontextmanager
async def over_sockets(client: Ear, server: Ear) -> AsyncIterator[None]:
    listening = sockets.bound("127.0.0.1", 0)
    serving = await sockets.listen(listening, lambda: server.connection)
    try:
        await sockets.connect(f"127.0.0.1:{listening.getsockname()[1]}", lambda: client.connection)
        yield
    finally:
        await sockets.stop_listening(serving)


@asynccontextmanager
async def inside_the_process(client: Ear, server: Ear) -> AsyncIterator[None]:
    in_process.join(client.connection, server.connection, "127.0.0.1:3181")
    assert client.connection.peer_address == "127.0.0.1:3181"
    yield


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("certificates"))


def over_tls(authority: TestAuthority) -> Joined:
    @asynccontextmanager
    async def join(client: Ear, server: Ear) -> AsyncIterator[None]:
        ours, theirs = Certificates(authority.bookie("b1")), Certificates(authority.of(Role.CLIENT))
        listening = sockets.bound("127.0.0.1", 0)
        serving = await asyncio.get_running_loop().create_server(
            lambda: server.connection, sock=listening, ssl=ours.server
        )
        try:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            await sockets.connect(address, lambda: client.connection, theirs.client)
            yield
        finally:
            await sockets.stop_listening(serving)

    return join


Joined = Callable[[Ear, Ear], AbstractAsyncContextManager[None]]
joined: Joined = over_sockets


@pytest.fixture(autouse=True, params=[over_sockets, inside_the_process, over_tls])
def every_way(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, authority: TestAuthority
) -> None:
    way = over_tls(authority) if request.param is over_tls else request.param
    monkeypatch.setattr(f"{__name__}.joined", way)


@asynccontextmanager
async def both_ends(
    *,
    client_silence: float = 20.0,
    server_silence: float = 60.0,
    asks: bool = True,
    untaken_bytes_max: int | None = None,
) -> AsyncIterator[tuple[Ear, Ear]]:
    client = Ear(asks=asks, silence_seconds_max=client_silence)
    server = Ear(asks=False, silence_seconds_max=server_silence, untaken_bytes_max=untaken_bytes_max)
    async with joined(client, server):
        try:
            await until(lambda: server.connection.is_writable)
            yield client, server
        finally:
            for ear in (client, server):
                ear.connection.abort("the test has ended")
            await until(lambda: client.why and server.why)


async def test_frames_of_every_size_arrive_in_order_both_ways() -> None:
    async with both_ends() as (client, server):
        sizes = [0, 1, 4095, 65_524, 65_525, MIB, 3, 7 * MIB, 5]
        for number, size in enumerate(sizes):
            client.connection.send(FrameKind.APPEND, number, [bytes(size // 2), bytes(size - size // 2)])
            server.connection.send(FrameKind.ACKS, number, [bytes(size)])
        await until(lambda: len(client.heard) == len(server.heard) == len(sizes))
        assert [(call, len(body)) for _, call, body in server.heard] == list(enumerate(sizes))
        assert [(call, len(body)) for _, call, body in client.heard] == list(enumerate(sizes))


async def test_who_is_held_is_not_read_and_the_sender_is_told_when_there_is_room_again() -> None:
    async with both_ends() as (client, server):
        server.connection.hold("a reason")
        server.connection.hold("another")
        sent = 0
        while client.connection.is_writable:
            client.connection.send(FrameKind.APPEND, 0, [bytes(MIB)])
            sent += 1
            assert sent < 64, "nobody holds the sender back"
        await asyncio.sleep(0.05)
        before = len(server.heard)
        assert before < sent and client.times_writable == 0
        server.connection.go_on("a reason")
        await asyncio.sleep(0.05)
        assert len(server.heard) <= before + 1, "one reason is left"
        server.connection.go_on("another")
        await until(lambda: len(server.heard) == sent and client.times_writable)
        assert client.connection.is_writable
    assert WRITE_BUFFER_BYTES_MAX <= MIB


async def test_what_was_sent_before_a_close_arrives_and_then_the_end() -> None:
    async with both_ends() as (client, server):
        client.connection.send(FrameKind.APPEND, 1, [bytes(5 * MIB)])
        client.connection.close("done")
        await until(lambda: client.why and server.why)
        assert [(kind, len(body)) for kind, _, body in server.heard] == [(FrameKind.APPEND, 5 * MIB)]
        assert (client.why, server.why) == (["done"], ["it ended the connection"])
        client.connection.send(FrameKind.APPEND, 2, [b"into the void"])


async def test_what_a_peer_does_not_take_is_counted_and_sent_once_it_does() -> None:
    async with both_ends(untaken_bytes_max=UNTAKEN_BYTES_MAX) as (client, server):
        client.connection.hold("it takes nothing")
        for _ in range(8):
            server.connection.send(FrameKind.READ, 1, [bytes(4 * MIB)])
        assert not server.connection.is_writable and server.connection.is_held
        await asyncio.sleep(0.2)
        assert server.connection.taken_bytes < 8 * MIB, "no more than the kernel's buffers take"
        client.connection.go_on("it takes nothing")
        await until(lambda: server.connection.taken_bytes == server.connection.sent_bytes)
        assert server.connection.is_writable and not server.connection.is_held


async def test_who_takes_slowly_and_steadily_is_not_cut() -> None:
    async with both_ends(server_silence=1.0, untaken_bytes_max=UNTAKEN_BYTES_MAX) as (client, server):
        for _ in range(2):
            server.connection.send(FrameKind.READ, 1, [bytes(4 * MIB)])
        while len(client.heard) < 2:
            assert not server.why, "it was cut before it had everything"
            client.connection.hold("it is slow")
            await asyncio.sleep(0.01)
            client.connection.go_on("it is slow")
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_nothing_is_sent_on_a_connection_that_this_side_has_ended(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its owners may not have heard of it yet; asyncio would complain of each time."""
    async with both_ends() as (client, server):
        client.connection.send(FrameKind.APPEND, 1, [b"the last"])
        await until(lambda: server.heard)
        getattr(client.connection, end)("enough")
        for _ in range(20):
            client.connection.send(FrameKind.CANCEL, 1)
        await until(lambda: server.why)
        assert len(server.heard) == 1
    assert "socket.send() raised" not in caplog.text


async def test_bytes_that_are_no_frame_end_the_connection_with_the_reason() -> None:
    async with both_ends() as (client, server):
        assert client.connection._transport is not None
        client.connection._transport.write(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: server.why and client.why)
        assert server.why[0].startswith("its bytes cannot be decoded: a frame of")


async def test_a_handler_that_fails_ends_its_connection_and_hears_so_once() -> None:
    async with both_ends() as (client, server):
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: problems.append(context["exception"])
        )
        server.fails_with = LookupError("a bug")
        client.connection.send(FrameKind.APPEND)
        client.connection.send(FrameKind.APPEND)
        await until(lambda: server.why and client.why)
        assert server.why == ["its stream failed: LookupError('a bug')"]
        assert problems == [server.fails_with], "it is not swallowed"


async def test_an_idle_connection_lives_as_long_as_the_other_end_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop's clock is put forward by hand, so that a busy machine makes nobody late."""
    async with both_ends() as (client, server):
        now = asyncio.get_running_loop().time()
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "time", lambda: now)
            for _ in range(5):
                now += module.KEEPALIVE_SECONDS
                while not client.connection.heard_at == server.connection.heard_at == now:
                    assert not client.why and not server.why
                    await asyncio.sleep(0)
        assert not client.heard and not server.heard


async def test_an_end_that_hears_nothing_gives_the_connection_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is cut off, or stopped, resets nothing."""
    monkeypatch.setattr(module, "KEEPALIVE_SECONDS", 0.05)
    async with both_ends(client_silence=0.3) as (client, server):
        server.connection.hold("it stands still")
        await until(lambda: client.why)
        assert client.why == ["no sign of life for 0 s"]


async def test_a_client_that_says_nothing_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with both_ends(asks=False, server_silence=0.2) as (_, server):
        await until(lambda: server.why)
        assert server.why == ["no sign of life for 0 s"]


class HandLoop:
    """A clock that is put forward by hand, and the one timer that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.due = due
        return cast("asyncio.TimerHandle", SimpleNamespace(cancel=lambda: None))


class Answering:
    """A transport whose other end answers each sign of life that is asked for, two milliseconds later."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.asked: list[float] = []
        self.is_aborted = False

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> None:
        """It has no TLS."""

    def write(self, data: bytes) -> None:
        self.asked.append(self._loop.now)

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("late_seconds", [0.0, 0.001, 0.9])
async def test_nobody_is_given_up_who_was_not_asked_first_however_late_the_timers_are(
    late_seconds: float,
) -> None:
    ear, loop = Ear(asks=True), HandLoop()
    connection, transport = ear.connection, Answering(loop)
    connection._loop = cast("asyncio.AbstractEventLoop", loop)
    connection.connection_made(cast("asyncio.BaseTransport", transport))
    for look in range(1, 31):
        asked = len(transport.asked)
        loop.now = loop.due + (late_seconds if look % 3 == 0 else 0.0)
        connection._look_for_life()
        assert not transport.is_aborted, f"given up at the {look}th look"
        if len(transport.asked) > asked:
            loop.now += 0.002
            connection.feed(b"".join(bytes(part) for part in framed(FrameKind.PONG, 0, ())))
    silences = [after - before for before, after in pairwise(transport.asked)]
    assert max(silences) < module.SILENCE_SECONDS_MAX


async def test_a_server_reads_nothing_from_one_that_takes_nothing_and_ends_it_in_time() -> None:
    async with both_ends(server_silence=0.3, untaken_bytes_max=16 * 1024) as (client, server):
        client.connection.hold("it takes nothing")
        for _ in range(32):
            server.connection.send(FrameKind.READ, 1, [bytes(MIB)])
        assert not server.connection.is_writable and server.connection.is_held
        client.connection.send(FrameKind.INFO, 2, [b"heard by nobody"])
        await until(lambda: server.why)
        assert server.why == [module.UNTAKEN] and not server.heard


async def test_many_small_frames_are_taken_a_few_a_turn_in_order() -> None:
    async with both_ends() as (client, server):
        client.connection.send(FrameKind.PING)
        for number in range(500):
            client.connection.send(FrameKind.INFO, number, [b""])
        await until(lambda: len(server.heard) == 500)
        assert [call for _, call, _ in server.heard] == list(range(500))
        assert not server.connection.is_held and not client.why


async def test_who_asks_too_often_for_signs_of_life_is_heard_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEEPALIVE_SECONDS", 5.0)  # so half a second lies between two
    async with both_ends() as (client, server):
        for number in range(20):
            client.connection.send(FrameKind.PING)
            client.connection.send(FrameKind.INFO, number, [b""])
        began = asyncio.get_running_loop().time()
        await until(lambda: len(server.heard) > FRAMES_AT_ONCE_MAX)  # what came with the first two questions
        assert asyncio.get_running_loop().time() - began > 0.2, "nothing of it was heard meanwhile"
        assert [call for _, call, _ in server.heard] == list(range(len(server.heard)))
        assert not client.why and not server.why
