"""The order in which a bookie starts and stops, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from bookie.config import BookieConfig
from bookie.errors import BookieError, DamagedLog, DataDirectoryError, LogFailed, NameTaken
from bookie.serving import daemon, listener
from bookie.serving.bookie_registration import Registrar
from bookie.serving.daemon import RunningBookie, serving, until_one_fails
from bookie.serving.data import data_session
from bookie.serving.directory import read_cookie
from bookie.serving.start_retries import started
from bookie.storage.bookie import Bookie
from bookie.wire import codec, grpc_methods
from bookie.wire.data.framing import FrameKind, Goodbye
from bookie.wire.data.handshake import ClientHello
from bookie.wire.messages import Ack, InfoReply, InfoRequest, Status
from metadata import open_store
from metadata.memory_store import MemoryStore
from metadata.records.cluster import find_bookie
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.store import Lease
from tests.bookie.bookies import entries
from tests.bookie.entries import entries_of, frame_of
from tests.bookie.messages import whole
from tests.bookie.serving.served import Client, formatted, plain, serve_until, served
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.aio import cancel, run
from tests.support.etcd import free_port
from tests.support.present import there
from tests.support.raw_data import raw_connection

OK = Status.OK
STOP_SECONDS_EXPECTED = 5.0
"""Less than the time a stopping bookie gives calls that do not end by themselves."""


async def test_a_bookie_is_registered_while_it_serves_and_restarts_with_all_it_had(tmp_path: Path) -> None:
    store = MemoryStore()
    for life in range(2):
        async with served(tmp_path, store) as client:
            found = there(await find_bookie(store, "b1"))
            assert (found.address, found.bookie.incarnation) == (
                client.bookie.address,
                client.incarnation,
            )
            assert plain(await client.append(client.request(0, frame_of(7, [life])))) == [(0, OK)]
            assert entries_of((await client.read(7, 0, 9)).columns) == entries(7, range(life + 1))
        assert await find_bookie(store, "b1") is None


async def test_stopping_answers_what_was_accepted_and_waits_for_no_client(tmp_path: Path) -> None:
    """Clients with an open stream, or waiting for news, do not hold it up."""
    store, loop = MemoryStore(), asyncio.get_running_loop()
    config = await formatted(tmp_path, store)
    ready: asyncio.Future[RunningBookie] = loop.create_future()
    stop = asyncio.Event()
    serve = asyncio.create_task(serve_until(config, store, ready, stop))
    running = await ready
    client = Client(running)
    async with client.stream() as idle_stream, client.stream() as stream:
        idle_stream.send(FrameKind.APPEND, 0, client.request(0, frame_of(8, [0])))
        await idle_stream.acks()
        polling = asyncio.create_task(client.last_add_confirmed(8, wait_ms=60_000))
        for n in range(50):
            stream.send(FrameKind.APPEND, 0, client.request(n, frame_of(7, [n])))
        first = there(await stream.acks())
        stopped_at = loop.time()
        stop.set()
        rest: list[Ack] = []
        while (more := await stream.acks()) is not None:
            rest += more
        assert await idle_stream.acks() is None
        assert (await polling).status is OK
        await serve
        assert loop.time() - stopped_at < STOP_SECONDS_EXPECTED
    answers = plain([*first, *rest])
    answered = [sequence for sequence, status in answers if status is OK]
    assert answered == list(range(len(answered)))
    assert {status for _, status in answers} <= {OK, Status.STOPPING}
    async with serving(config, store) as running:
        client = Client(running)
        assert set(answered) <= set((await client.read(7, 0, 99)).columns.ids)


async def test_two_bookies_on_one_directory_are_refused(tmp_path: Path) -> None:
    store = MemoryStore()
    config = await formatted(tmp_path, store)
    async with serving(config, store):
        with pytest.raises(DataDirectoryError, match="is in use by another bookie process"):
            async with serving(config, store):
                pass


async def test_a_failed_log_ends_the_bookie_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1: nothing is acknowledged, and who runs the bookie is told LogFailed and nothing else."""
    store = MemoryStore()
    config = await formatted(tmp_path, store)
    disk = SimulatedDisk(Random(0))
    monkeypatch.setattr(daemon, "OsDisk", lambda _: disk)
    monkeypatch.setattr(listener, "STOP_SECONDS_MAX", 0.2)
    with pytest.raises(LogFailed, match="the disk is broken"):
        async with serving(config, store) as running:
            client = Client(running)
            disk.fail_sync_after(0, OSError(errno.EIO, "the disk is broken"))
            async with client.stream() as stream:
                stream.send(FrameKind.APPEND, 0, client.request(0, frame_of(7, [0])))
                await until_one_fails(running)
    assert await find_bookie(store, "b1") is None


async def end_leases(store: MemoryStore) -> None:
    """As a long pause of their holders does."""
    for lease_id in list(store._data._leases):
        await store.revoke_lease(Lease(lease_id, 1.0))


async def test_a_bookie_that_lost_its_name_ends_with_the_reason(tmp_path: Path) -> None:
    """M2: who runs the bookie is told NameTaken and nothing else."""
    store = MemoryStore()
    config = await formatted(tmp_path, store, lease_seconds=1.0)
    with pytest.raises(NameTaken, match="another bookie is registered as b1"):
        async with serving(config, store) as running:
            other = Registration(BookieRef("b1", "another incarnation"), running.address)
            await end_leases(store)
            await store.create(other.key, other.encode())
            await asyncio.Event().wait()


# --- lock, port and name come before the log is touched, and are kept while it is read


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


async def with_a_torn_tail(directory: Path, store: MemoryStore) -> BookieConfig:
    """A bookie's directory whose next start cuts the log, and writes the index."""
    async with served(directory, store) as client:
        await client.append(client.request(0, frame_of(7, [0])), client.request(1, frame_of(7, [1])))
    path = directory / "b1" / "log" / "00000000.log"
    with path.open("ab") as log:
        log.write(b"a torn record")
    for file in (directory / "b1" / "index").iterdir():
        file.unlink()
    return await formatted(directory, store, lease_seconds=1.0)


@asynccontextmanager
async def elsewhere(store: MemoryStore, config: BookieConfig) -> AsyncIterator[None]:
    """The same bookie lives on another machine, whose lock on the shared directory is not seen here."""
    cookie = read_cookie(config.data_directory)
    there = Registration(BookieRef(cookie.bookie_id, cookie.incarnation), "elsewhere:3181")
    registrar = Registrar(store, there, config.lease_seconds, lock_identity=b"seen there only")
    await registrar.take()
    keeping = asyncio.create_task(registrar.keep())
    try:
        yield
    finally:
        await cancel(keeping)
        await registrar.give_up()


async def test_a_bookie_whose_name_is_taken_does_not_touch_the_log(tmp_path: Path) -> None:
    """M2: the lock alone does not keep two machines apart where their file system does not share it."""
    store = MemoryStore()
    config = await with_a_torn_tail(tmp_path, store)
    before = contents(tmp_path)
    async with elsewhere(store, config):
        with pytest.raises(NameTaken):
            async with serving(config, store):
                pass
        assert contents(tmp_path) == before
        found = there(await find_bookie(store, "b1"))
        assert found.address == "elsewhere:3181"
    async with serving(config, store) as running:
        client = Client(running)
        assert entries_of((await client.read(7, 0, 9)).columns) == entries(7, range(2))
    assert contents(tmp_path) != before, "there was something to cut"


async def test_a_bookie_that_cannot_have_its_port_does_not_touch_the_log(tmp_path: Path) -> None:
    store = MemoryStore()
    config = await with_a_torn_tail(tmp_path, store)
    before = contents(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        taken_port = replace(config, port=taken.getsockname()[1])
        with pytest.raises(BookieError, match="cannot listen"):
            async with serving(taken_port, store):
                pass
    assert contents(tmp_path) == before
    assert await find_bookie(store, "b1") is None


async def info_of(address: str) -> bytes:
    async with grpc.aio.insecure_channel(address, options=grpc_methods.CHANNEL_OPTIONS) as channel:
        ask: Any = channel.unary_unary(grpc_methods.INFO)
        answer: bytes = await ask(whole(codec.encode(InfoRequest())), timeout=20)
        return answer


async def refusal_from(address: str, method: str) -> grpc.aio.AioRpcError:
    """What a call of any kind ends with; it does not wait for its time limit."""
    async with grpc.aio.insecure_channel(address, options=grpc_methods.CHANNEL_OPTIONS) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            ask: Any = channel.unary_unary(method)
            await ask(b"", timeout=20)
        return refused.value


async def goodbye_from(address: str) -> bytes:
    """What a client of the data protocol is told."""
    async with raw_connection(address) as raw:
        raw.send(FrameKind.HELLO, 0, [ClientHello().encode()])
        answer = await raw.receive()
        assert answer is not None and (answer.kind, answer.call) == (FrameKind.GOODBYE, Goodbye.STARTING)
        assert await raw.receive() is None
        return bytes(answer.body)


class SlowReplay:
    """Stands in for `Bookie.open`: waits until told to go on, then opens the bookie."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._open = Bookie.open
        monkeypatch.setattr(Bookie, "open", self._wait_and_open)

    async def _wait_and_open(self, *arguments: Any) -> Bookie:
        self.begun.set()
        await self.go_on.wait()
        return await self._open(*arguments)


async def test_a_bookie_keeps_its_name_however_long_its_log_is_read_and_callers_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M2. A writer that asks for a sign of life takes another bookie, and does not wait for this one."""
    store, loop = MemoryStore(), asyncio.get_running_loop()
    config = await formatted(tmp_path, store, lease_seconds=1.0)
    replay = SlowReplay(monkeypatch)
    ready: asyncio.Future[RunningBookie] = loop.create_future()
    stop = asyncio.Event()
    serve = asyncio.create_task(serve_until(config, store, ready, stop))
    await replay.begun.wait()
    over = loop.time() + 2 * config.lease_seconds
    address = ""
    while loop.time() < over:
        found = there(await find_bookie(store, "b1"))
        address = found.address
        for method in (grpc_methods.INFO, grpc_methods.MAINTAIN):
            refused = await refusal_from(address, method)
            assert (refused.code(), refused.details()) == (
                grpc.StatusCode.UNAVAILABLE,
                "the bookie is starting: it reads its log",
            )
        assert await goodbye_from(address) == b"the bookie is starting: it reads its log"
    assert not ready.done()
    replay.go_on.set()
    running = await ready
    assert running.address == address
    assert codec.decode(InfoReply, await info_of(address)).bookie_id == "b1"
    stop.set()
    await serve


async def test_a_bookie_that_lost_its_name_while_it_reads_its_log_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    config = await formatted(tmp_path, store, lease_seconds=1.0)
    replay = SlowReplay(monkeypatch)
    ready: asyncio.Future[RunningBookie] = asyncio.get_running_loop().create_future()
    serve = asyncio.create_task(serve_until(config, store, ready, asyncio.Event()))
    await replay.begun.wait()
    other = Registration(BookieRef("b1", "another incarnation"), "elsewhere:3181")
    await end_leases(store)
    await store.create(other.key, other.encode())
    with pytest.raises(NameTaken):
        await serve
    assert not ready.done()


class LosesTheFirstLease(MemoryStore):
    """As where a machine stands still for longer than the lease, before anything is written under it."""

    is_lost = False

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        lease = await super().grant_lease(ttl_seconds)
        if not self.is_lost:
            self.is_lost = True
            await self.revoke_lease(lease)
        return lease


async def test_a_bookie_whose_lease_ran_out_before_it_was_registered_starts_all_the_same(
    tmp_path: Path,
) -> None:
    store = LosesTheFirstLease()
    config = await formatted(tmp_path, store)
    async with AsyncExitStack() as stack:
        running = await started(lambda attempt: attempt.enter_async_context(serving(config, store)), stack)
        assert store.is_lost
        assert there(await find_bookie(store, "b1")).address == running.address


async def test_a_log_that_cannot_be_read_gives_name_and_port_back(tmp_path: Path) -> None:
    store = MemoryStore()
    config = await formatted(tmp_path, store, port=free_port())
    (tmp_path / "b1" / "log" / "00000000.log").write_bytes(b"damage" * 100)
    with pytest.raises(DamagedLog):
        async with serving(config, store):
            pass
    assert await find_bookie(store, "b1") is None
    socket.create_server((config.host, config.port)).close()


def test_sigterm_ends_a_bookie_that_waits_for_its_name(tmp_path: Path) -> None:
    async def test() -> None:
        uri = "memory://test-daemon-sigterm"
        store = await open_store(uri)
        assert isinstance(store, MemoryStore)
        config = await formatted(tmp_path, store, metadata_uri=uri, lease_seconds=60, port=free_port())
        ready: list[RunningBookie] = []
        async with elsewhere(store, config):
            serve = asyncio.create_task(daemon.run(config, ready.append))
            refused = await refusal_from(f"{config.host}:{config.port}", grpc_methods.INFO)
            while refused.details() != data_session.STARTING:
                refused = await refusal_from(f"{config.host}:{config.port}", grpc_methods.INFO)
            os.kill(os.getpid(), signal.SIGTERM)
            await serve
        assert ready == []

    run(test(), 2 * STOP_SECONDS_EXPECTED)  # far less than the time a bookie waits for its name
