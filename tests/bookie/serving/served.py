"""A bookie served on a free port, as the daemon runs it, and a client that speaks raw frames to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookie.config import BookieConfig
from bookie.serving.daemon import RunningBookie, serving
from bookie.serving.directory import format_directory
from bookie.wire import codec
from bookie.wire.data.framing import Body, FrameKind
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
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.support.raw_data import RawConnection, after_handshake

OK = Status.OK
PAGE_BYTES = 1024 * 1024
LEDGERS = (7, 8, 9, 404)


@dataclass(frozen=True)
class Client:
    """Speaks to one bookie in raw messages."""

    bookie: RunningBookie

    @property
    def incarnation(self) -> str:
        return self.bookie.cookie.incarnation

    def stream(self) -> AbstractAsyncContextManager[RawConnection]:
        return after_handshake(self.bookie.address)

    def request(
        self, first_sequence: int, *frames: Frame, incarnation: str | None = None
    ) -> list[bytes | memoryview]:
        return codec.encode(AppendRequest(incarnation or self.incarnation, first_sequence, frames))

    async def append(self, *requests: list[bytes | memoryview]) -> list[Ack]:
        """Sends the requests on a connection of their own; all acknowledgements, in the order they came."""
        found: list[Ack] = []
        count = sum(len(codec.decode(AppendRequest, b"".join(request)).frames) for request in requests)
        async with self.stream() as stream:
            for request in requests:
                stream.send(FrameKind.APPEND, 0, request)
            while len(found) < count:
                acks = await stream.acks()
                assert acks is not None, "the bookie has ended the connection"
                found += acks
        return found

    async def read(self, ledger_id: int, first: int, last: int, **others: Any) -> ReadReply:
        request = ReadRequest(
            others.pop("incarnation", self.incarnation), ledger_id, first, last, PAGE_BYTES, **others
        )
        return codec.decode(ReadReply, await self.call(FrameKind.READ, codec.encode(request)))

    async def last_add_confirmed(self, ledger_id: int, **others: Any) -> LacReply:
        request = LacRequest(others.pop("incarnation", self.incarnation), ledger_id, **others)
        body = codec.encode(request)
        return codec.decode(LacReply, await self.call(FrameKind.LAST_ADD_CONFIRMED, body))

    async def call(self, kind: FrameKind, body: list[bytes | memoryview]) -> Body:
        async with self.stream() as stream:
            answer = await stream.call(kind, body)
            assert answer.kind is kind, answer
            return answer.body


async def formatted(directory: Path, store: MemoryStore, name: str = "b1", **settings: Any) -> BookieConfig:
    path = directory / name
    if not path.exists():
        await format_directory(path, name, store)
    await _give_ledgers(store)
    defaults: dict[str, Any] = {
        "metadata_uri": "memory://test",
        "port": 0,
        "lease_seconds": 60.0,
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
async def served(directory: Path, store: MemoryStore | None = None, **settings: Any) -> AsyncIterator[Client]:
    """A bookie on a free port, as the daemon runs it, and a client of it."""
    store = store or MemoryStore()
    config = await formatted(directory, store, **settings)
    async with serving(config, store) as bookie:
        client = Client(bookie)
        yield client


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


def inside() -> set[str]:
    """The abstract sockets of gRPC servers in this process, as anybody on the host can find them."""
    mine = {os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    names = {line[7].removeprefix("@") for line in lines if len(line) > 7 and f"socket:[{line[6]}]" in mine}
    return {name for name in names if name.startswith("bookledger-") and name.count("-") == 1}
