"""A bookie served on a free port, as the daemon runs it, and a client that speaks raw messages to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from bookie.config import BookieConfig
from bookie.serving.daemon import RunningBookie, serving
from bookie.serving.directory import format_directory
from bookie.wire import codec, rpc
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
from metadata.errors import KeyExists
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.store import Lease
from tests.support.aio import run

OK = Status.OK
PAGE_BYTES = 1024 * 1024
LEDGERS = (7, 8, 9, 404)


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
    await _give_ledgers(store)
    defaults: dict[str, Any] = {
        "metadata_uri": "memory://test",
        "port": 0,
        "lease_seconds": 1.0,
        "disk_free_bytes_min": 16 << 20,
        "disk_reserve_bytes": 1 << 20,
    }
    return BookieConfig(data_directory=path, **(defaults | settings))


async def _give_ledgers(store: MemoryStore) -> None:
    """The records of the ledgers that these tests write to: a bookie takes nothing for others."""
    for ledger_id in LEDGERS:
        ensemble = (BookieRef("b1", "i1"),)
        with suppress(KeyExists):
            await LedgerStore(store).create(LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, ensemble),)))


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


async def serve_until(
    config: BookieConfig, store: MemoryStore, ready: asyncio.Future[RunningBookie], stop: asyncio.Event
) -> None:
    async with serving(config, store) as running:
        ready.set_result(running)
        await stop.wait()


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
