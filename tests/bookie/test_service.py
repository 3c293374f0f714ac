"""The gRPC face: every frame is answered with a status, and only what is no message is a gRPC error."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from bookie import daemon
from bookie.config import BookieConfig
from bookie.daemon import RunningBookie, serving
from bookie.directory import format_directory
from bookie.errors import BookieError, DataDirectoryError, LogFailed, NameTaken
from bookie.wire import codec, rpc
from bookie.wire.columns import ENTRY_BYTES_MAX
from bookie.wire.messages import (
    Ack,
    AppendRequest,
    Frame,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    Status,
)
from metadata.bookie_registry import Registration, find_bookie
from metadata.ledger_record import BookieRef
from metadata.memory import MemoryStore
from metadata.store import Lease
from tests.bookie.bookies import entries
from tests.bookie.entries import columns_of, entries_of, entry_of, frame_of, lac_of
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.aio import run
from tests.support.etcd import free_port

OK = Status.OK
PAGE_BYTES = 1024 * 1024
STOP_SECONDS_EXPECTED = 5.0
"""Less than the time a stopping bookie gives calls that do not end by themselves."""


@dataclass(frozen=True)
class Client:
    """Speaks to one bookie in raw messages."""

    bookie: RunningBookie
    channel: grpc.aio.Channel

    @property
    def incarnation(self) -> str:
        return self.bookie.cookie.incarnation

    def stream(self) -> Any:
        return self.channel.stream_stream(rpc.APPEND)()

    def request(self, first_sequence: int, *frames: Frame, incarnation: str | None = None) -> bytes:
        return codec.encode_append_request(
            AppendRequest(incarnation or self.incarnation, first_sequence, frames)
        )

    async def append(self, *requests: bytes) -> list[Ack]:
        """Sends the requests on a stream of their own; all acknowledgements, in the order they came."""
        stream = self.stream()
        for request in requests:
            await stream.write(request)
        await stream.done_writing()
        return [ack async for reply in stream for ack in codec.decode_append_reply(reply).acks]

    async def read(self, ledger_id: int, first: int, last: int, **others: Any) -> ReadReply:
        request = ReadRequest(
            others.pop("incarnation", self.incarnation), ledger_id, first, last, PAGE_BYTES, **others
        )
        return codec.decode_read_reply(await self.call(rpc.READ, codec.encode_read_request(request)))

    async def last_add_confirmed(self, ledger_id: int, **others: Any) -> LacReply:
        request = LacRequest(others.pop("incarnation", self.incarnation), ledger_id, **others)
        return codec.decode_lac_reply(
            await self.call(rpc.LAST_ADD_CONFIRMED, codec.encode_lac_request(request))
        )

    async def call(self, method: str, request: bytes) -> bytes:
        unary: Any = self.channel.unary_unary(method)
        answer: bytes = await unary(request, timeout=20)
        return answer


async def formatted(directory: Path, store: MemoryStore, name: str = "b1", **settings: Any) -> BookieConfig:
    path = directory / name
    if not path.exists():
        await format_directory(path, name, store)
    settings = {"port": 0, "lease_seconds": 1.0} | settings
    return BookieConfig(data_directory=path, metadata_uri="memory://test", **settings)


@asynccontextmanager
async def client_of(bookie: RunningBookie) -> AsyncIterator[Client]:
    async with grpc.aio.insecure_channel(bookie.address, options=rpc.CHANNEL_OPTIONS) as channel:
        yield Client(bookie, channel)


@asynccontextmanager
async def served(directory: Path, store: MemoryStore | None = None, **settings: Any) -> AsyncIterator[Client]:
    """A bookie on a free port, as the daemon runs it, and a client of it."""
    store = store or MemoryStore()
    config = await formatted(directory, store, **settings)
    async with serving(config, store) as bookie, client_of(bookie) as client:
        yield client


def with_client(directory: Path, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with served(directory) as client:
            await test(client)

    run(main())


def acks(first: int, statuses: Iterable[Status]) -> list[tuple[int, Status]]:
    return list(enumerate(statuses, first))


def plain(found: Iterable[Ack]) -> list[tuple[int, Status]]:
    return [(ack.sequence, ack.status) for ack in found]


# --- appending


def test_every_frame_is_acknowledged_under_its_sequence_number(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        found = await client.append(
            client.request(5, frame_of(7, [0, 1]), frame_of(8, [0])),
            client.request(7),
            client.request(7, frame_of(7, [2], lac=1)),
        )
        assert plain(found) == acks(5, [OK] * 3)
        reply = await client.read(7, 0, 9)
        assert reply == ReadReply(OK, frame_of(7, range(3)).columns, 9, (), lac_of(1))
        assert await client.last_add_confirmed(7) == LacReply(OK, lac_of(1))

    with_client(tmp_path, test)


def test_a_frame_is_acknowledged_while_the_stream_stays_open(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        stream = client.stream()
        for sequence in range(3):
            await stream.write(client.request(sequence, frame_of(7, [sequence])))
            assert codec.decode_append_reply(await stream.read()).acks == (Ack(sequence, OK),)
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF

    with_client(tmp_path, test)


def test_a_fenced_ledgers_writer_is_told_so(tmp_path: Path) -> None:
    """R1"""

    async def test(client: Client) -> None:
        await client.append(client.request(0, frame_of(7, [0])))
        assert (await client.read(7, 0, 0, fence=True)).status is OK
        assert (await client.last_add_confirmed(404, fence=True)).status is Status.NO_SUCH_LEDGER
        found = await client.append(
            client.request(1, frame_of(7, [1]), frame_of(404, [0]), frame_of(7, [1], recovery=True))
        )
        assert sorted(plain(found)) == acks(1, [Status.FENCED, Status.FENCED, OK])

    with_client(tmp_path, test)


def test_a_message_for_another_incarnation_is_refused_and_does_nothing(tmp_path: Path) -> None:
    """W7"""

    async def test(client: Client) -> None:
        for other in ("00000000-66b0-4f3e-9d0c-2b1f6f0d8a11", ""):
            request = codec.encode_append_request(
                AppendRequest(other, 3, (frame_of(7, [0]), frame_of(7, [1])))
            )
            assert plain(await client.append(request)) == acks(3, [Status.WRONG_INCARNATION] * 2)
            detail = f"this is incarnation {client.incarnation} of b1"
            assert await client.read(7, 0, 0, incarnation=other, fence=True) == ReadReply(
                Status.WRONG_INCARNATION, detail=detail
            )
            assert await client.last_add_confirmed(7, incarnation=other, fence=True) == LacReply(
                Status.WRONG_INCARNATION, detail=detail
            )
        assert plain(await client.append(client.request(0, frame_of(7, [0])))) == [(0, OK)]

    with_client(tmp_path, test)


def test_an_entry_that_is_too_large_is_a_bad_request_and_its_neighbours_are_stored(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        large = Frame(7, columns_of([entry_of(7, 0, ENTRY_BYTES_MAX + 1)]))
        largest = Frame(7, columns_of([entry_of(7, 0, ENTRY_BYTES_MAX)]))
        found = await client.append(client.request(0, large, frame_of(7, [1])), client.request(2, largest))
        assert sorted(plain(found)) == acks(0, [Status.BAD_REQUEST, OK, OK])
        reply = await client.read(7, 0, 1)
        assert entries_of(reply.columns) == [entry_of(7, 0, ENTRY_BYTES_MAX)]

    with_client(tmp_path, test)


def test_garbage_is_an_invalid_argument_and_the_frames_before_it_are_answered(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        stream = client.stream()
        await stream.write(client.request(0, frame_of(7, [0])))
        await stream.write(b"\xff garbage")
        assert codec.decode_append_reply(await stream.read()).acks == (Ack(0, OK),)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stream.read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        for method in (rpc.READ, rpc.LAST_ADD_CONFIRMED, rpc.INFO):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await client.call(method, b"\xff garbage")
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert entries_of((await client.read(7, 0, 9)).columns) == entries(7, [0])

    with_client(tmp_path, test)


def test_a_last_add_confirmed_no_record_can_hold_harms_nobody_else(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        frame = frame_of(7, [0], lac=0)
        assert frame.last_add_confirmed is not None
        bad = Frame(7, frame.columns, type(frame.last_add_confirmed)(0, 0, bytes(70_000)))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.append(client.request(0, bad))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert plain(await client.append(client.request(0, frame))) == [(0, OK)]

    with_client(tmp_path, test)


def test_a_client_that_goes_away_leaves_the_others_alone(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        stream = client.stream()
        await stream.write(client.request(0, frame_of(7, [0])))
        await stream.read()
        stream.cancel()
        assert plain(await client.append(client.request(0, frame_of(7, [1])))) == [(0, OK)]

    with_client(tmp_path, test)


# --- reading


def test_a_request_that_makes_no_sense_is_a_bad_request(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        for ledger_id, first, last in ((7, 2, 1), (7, -1, 1), (-7, 0, 1)):
            assert (await client.read(ledger_id, first, last)).status is Status.BAD_REQUEST
        assert (await client.last_add_confirmed(-7)).status is Status.BAD_REQUEST
        assert (await client.last_add_confirmed(7, wait_ms=60_001)).status is Status.BAD_REQUEST

    with_client(tmp_path, test)


def test_a_ledger_of_tiny_entries_is_read_page_by_page(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        per_frame, frames = 16_000, 8
        requests = [
            client.request(
                n,
                Frame(
                    7, columns_of([(i, b"", bytes(64)) for i in range(n * per_frame, (n + 1) * per_frame)])
                ),
            )
            for n in range(frames)
        ]
        assert plain(await client.append(*requests)) == acks(0, [OK] * frames)
        seen = 0
        while seen < per_frame * frames:
            reply = await client.read(7, seen, per_frame * frames - 1)
            assert list(reply.columns.ids) == list(range(seen, reply.covered_through + 1))
            seen = reply.covered_through + 1

    with_client(tmp_path, test)


def test_a_bookie_tells_who_it_is_and_what_it_has_done(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await client.append(client.request(0, frame_of(7, range(3))))
        info = codec.decode_info_reply(await client.call(rpc.INFO, codec.encode_info_request(None)))
        cookie = client.bookie.cookie
        assert (info.bookie_id, info.incarnation, info.cluster_id) == (
            cookie.bookie_id,
            cookie.incarnation,
            cookie.cluster_id,
        )
        assert (info.entries_added, info.bytes_added) == (3, 60)
        assert info.syncs >= 1
        assert 0 < info.disk_bytes_free <= info.disk_bytes_total

    with_client(tmp_path, test)


# --- starting and stopping


def test_a_bookie_is_registered_while_it_serves_and_restarts_with_all_it_had(tmp_path: Path) -> None:
    async def test() -> None:
        store = MemoryStore()
        for life in range(2):
            async with served(tmp_path, store) as client:
                found = await find_bookie(store, "b1")
                assert found is not None
                assert (found.address, found.bookie.incarnation) == (
                    client.bookie.address,
                    client.incarnation,
                )
                assert plain(await client.append(client.request(0, frame_of(7, [life])))) == [(0, OK)]
                assert entries_of((await client.read(7, 0, 9)).columns) == entries(7, range(life + 1))
            assert await find_bookie(store, "b1") is None

    run(test())


async def _serve(
    config: BookieConfig, store: MemoryStore, ready: asyncio.Future[RunningBookie], stop: asyncio.Event
) -> None:
    async with serving(config, store) as running:
        ready.set_result(running)
        await stop.wait()


def test_stopping_answers_what_was_accepted_and_waits_for_no_client(tmp_path: Path) -> None:
    """Clients with an open stream, or waiting for news, do not hold it up."""

    async def test() -> None:
        store, loop = MemoryStore(), asyncio.get_running_loop()
        config = await formatted(tmp_path, store)
        ready: asyncio.Future[RunningBookie] = loop.create_future()
        stop = asyncio.Event()
        serve = asyncio.create_task(_serve(config, store, ready, stop))
        running = await ready
        async with client_of(running) as client, client_of(running) as idle:
            idle_stream = idle.stream()
            await idle_stream.write(idle.request(0, frame_of(8, [0])))
            await idle_stream.read()
            polling = asyncio.create_task(idle.last_add_confirmed(8, wait_ms=60_000))
            stream = client.stream()
            for n in range(50):
                await stream.write(client.request(n, frame_of(7, [n])))
            first = codec.decode_append_reply(await stream.read()).acks
            stopped_at = loop.time()
            stop.set()
            rest: list[Ack] = []
            while (reply := await stream.read()) is not grpc.aio.EOF:
                rest += codec.decode_append_reply(reply).acks
            assert await idle_stream.read() is grpc.aio.EOF
            assert await polling == LacReply(OK)
            await serve
            assert loop.time() - stopped_at < STOP_SECONDS_EXPECTED
        answers = plain([*first, *rest])
        answered = [sequence for sequence, status in answers if status is OK]
        assert answered == list(range(len(answered)))
        assert {status for _, status in answers} <= {OK, Status.STOPPING}
        async with serving(config, store) as running, client_of(running) as client:
            assert set(answered) <= set((await client.read(7, 0, 99)).columns.ids)

    run(test())


def test_two_bookies_on_one_port_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        store = MemoryStore()
        port = free_port()
        first = await formatted(tmp_path, store, "b1", port=port)
        second = await formatted(tmp_path, store, "b2", port=port)
        async with serving(first, store):
            with pytest.raises(BookieError, match=f"cannot listen on 127.0.0.1:{port}"):
                async with serving(second, store):
                    pass
            assert await find_bookie(store, "b2") is None

    run(test())


def test_two_bookies_on_one_directory_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        store = MemoryStore()
        config = await formatted(tmp_path, store)
        async with serving(config, store):
            with pytest.raises(DataDirectoryError, match="is in use by another bookie process"):
                async with serving(config, store):
                    pass

    run(test())


def test_a_failed_log_ends_the_bookie_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1: nothing is acknowledged, and who runs the bookie is told LogFailed and nothing else."""

    async def test() -> None:
        store = MemoryStore()
        config = await formatted(tmp_path, store)
        disk = SimulatedDisk(Random(0))
        monkeypatch.setattr(daemon, "OsDisk", lambda _: disk)
        monkeypatch.setattr(daemon, "STOP_SECONDS_MAX", 0.2)
        with pytest.raises(LogFailed, match="the disk is broken"):
            async with serving(config, store) as running, client_of(running) as client:
                disk.fail_sync_after(0, OSError(errno.EIO, "the disk is broken"))
                stream = client.stream()
                await stream.write(client.request(0, frame_of(7, [0])))
                await daemon._until_stopped_or_failed(asyncio.Event(), running.bookie)
        assert await find_bookie(store, "b1") is None

    run(test())


class LeaseEndingStore(MemoryStore):
    """A memory store that can end every lease it has granted, as a long pause of their holders does."""

    def __init__(self) -> None:
        super().__init__()
        self._granted: list[Lease] = []

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        self._granted.append(await super().grant_lease(ttl_seconds))
        return self._granted[-1]

    async def end_leases(self) -> None:
        for lease in self._granted:
            await self.revoke_lease(lease)


def test_a_bookie_that_lost_its_name_ends_with_the_reason(tmp_path: Path) -> None:
    """M2: who runs the bookie is told NameTaken and nothing else."""

    async def test() -> None:
        store = LeaseEndingStore()
        config = await formatted(tmp_path, store)
        with pytest.raises(NameTaken, match="another bookie is registered as b1"):
            async with serving(config, store) as running:
                other = Registration(BookieRef("b1", "another incarnation"), running.address)
                await store.end_leases()
                await store.create(other.key, other.encode())
                await asyncio.Event().wait()

    run(test())
