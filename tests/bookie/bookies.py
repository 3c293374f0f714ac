"""A bookie's storage, opened for a test on a real directory or on a simulated disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bookie.config import BookieConfig
from bookie.disk.disk import Disk, OsDisk
from bookie.index.index import Index
from bookie.storage.bookie import Bookie
from bookie.wire.messages import EntryRange, Frame, LacRequest, ReadReply, ReadRequest, Status
from tests.bookie.entries import Entry, entries_of, entry_of
from tests.bookie.logs import INCARNATION

ALL_ENTRIES = 2**62
PAGE_BYTES = 1024 * 1024


def config_of(directory: Path, **settings: Any) -> BookieConfig:
    room = {"disk_free_bytes_min": 16 << 20, "disk_reserve_bytes": 1 << 20}
    return BookieConfig(data_directory=directory, metadata_uri="memory://test", **(room | settings))


async def open_bookie(
    directory: Path, disk: Disk | None = None, incarnation: str = INCARNATION, **settings: Any
) -> Bookie:
    """A bookie on this directory; its log on `disk`, if one is given."""
    for name in ("log", "index"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    index = Index(directory / "index")
    try:
        disk = disk or OsDisk(directory / "log")
        return await Bookie.open(config_of(directory, **settings), disk, index, incarnation)
    except BaseException:
        index.close()
        raise


@asynccontextmanager
async def bookie_on(directory: Path, disk: Disk | None = None, **settings: Any) -> AsyncIterator[Bookie]:
    bookie = await open_bookie(directory, disk, **settings)
    try:
        yield bookie
    finally:
        await bookie.close()


def submit(bookie: Bookie, frame: Frame) -> asyncio.Future[tuple[Status, str]]:
    """Appends without waiting; the future is the answer."""
    answered: asyncio.Future[tuple[Status, str]] = asyncio.get_running_loop().create_future()
    bookie.append(frame, lambda status, detail: answered.set_result((status, detail)))
    return answered


async def append(bookie: Bookie, *frames: Frame) -> list[Status]:
    """Appends all frames and waits for the answers."""
    answers = [submit(bookie, frame) for frame in frames]
    return [status for status, _ in await asyncio.gather(*answers)]


def read_request(
    ledger_id: int, first: int = 0, last: int = ALL_ENTRIES, *, fence: bool = False
) -> ReadRequest:
    return ReadRequest(INCARNATION, ledger_id, first, last, PAGE_BYTES, fence)


async def read(bookie: Bookie, ledger_id: int, first: int = 0, last: int = ALL_ENTRIES) -> list[Entry]:
    """The entries of the first page, which must be the only one."""
    reply = await bookie.read(read_request(ledger_id, first, last))
    assert (reply.status, reply.covered_through, reply.damaged) == (Status.OK, last, ())
    return entries_of(reply.columns)


async def fenced_read(bookie: Bookie, ledger_id: int) -> ReadReply:
    return await bookie.read(read_request(ledger_id, fence=True))


def lac_request(ledger_id: int, *, fence: bool = False, beyond: int = -1, wait_ms: int = 0) -> LacRequest:
    return LacRequest(INCARNATION, ledger_id, fence, beyond, wait_ms)


def entries(ledger_id: int, entry_ids: Iterable[int]) -> list[Entry]:
    return [entry_of(ledger_id, entry_id) for entry_id in entry_ids]


def damaged_ids(damaged: Iterable[EntryRange]) -> set[int]:
    return {i for r in damaged for i in range(r.first_entry, r.last_entry + 1)}
