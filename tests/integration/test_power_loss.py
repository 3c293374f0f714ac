"""Power lost under a real bookie on a real file system: what was acknowledged is there afterwards (B1, B2, R1).

The file system in a loop-mounted image is shut down as a loss of power would: nothing that was not synced
reaches the image, and its journal is not flushed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bookie.disk.disk import sync_directory
from bookie.wire import Status, of_payloads
from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import ClientConfig, LedgerError
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookie_client import LaneTerms
from ledgers.integrity.ledger_keys import LedgerKey
from tests.support.aio import until_true
from tests.support.lane_listener import Listener
from tests.support.long_runs import first_then_long
from tests.support.mounts import mount_point
from tests.support.writing import payload_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")

SHUT_DOWN = 0x8004587D
WITHOUT_FLUSHING_THE_JOURNAL = struct.pack("I", 2)
IMAGE_BYTES = 320 * 1024 * 1024
SIZE = 500
ROUNDS = 4
QUICK = ClientConfig(append_seconds_max=2, append_quorum_seconds_max=5, recovery_tries_max=3)


class FileSystem:
    """A file system of its own in an image file."""

    def __init__(self, kind: str, directory: Path, mount_point: Path) -> None:
        self.path = mount_point
        self._image = directory / "image"
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run([f"mkfs.{kind}", "-q", str(self._image)], check=True, capture_output=True)

    def mount(self) -> None:
        done = subprocess.run(
            ["mount", "-o", "loop", str(self._image), str(self.path)], capture_output=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"cannot mount an image here: {done.stderr.decode().strip()}")

    def give_to(self, bookie: Path) -> None:
        """Has the bookie's data directory on this file system, and its log file elsewhere."""
        data = self.path / "data"
        data.mkdir()
        sync_directory(self.path)
        bookie.symlink_to(data)

    def lose_power(self) -> None:
        """From now on nothing reaches the image, and every write and sync fails."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUT_DOWN, WITHOUT_FLUSHING_THE_JOURNAL)
        finally:
            os.close(fd)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


@pytest.fixture(params=first_then_long(["ext4", "xfs"]))
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileSystem]:
    if shutil.which(f"mkfs.{request.param}") is None:
        pytest.skip(f"there is no mkfs.{request.param} here")
    with mount_point() as path:
        disk = FileSystem(request.param, tmp_path, path)
        disk.mount()
        try:
            disk.give_to(tmp_path / "bookie-1")
            yield disk
        finally:
            disk.unmount()


async def one_copy(client: LedgerClient, *, deferred_sync: bool = False) -> WriteHandle:
    return await client.create_ledger(
        ensemble_size=1, write_quorum=1, ack_quorum=1, deferred_sync=deferred_sync
    )


async def power_cut(disk: FileSystem, bookie: BookieProcess) -> None:
    """Power goes while the bookie writes, and comes back."""

    def cut() -> None:
        disk.lose_power()
        bookie.kill()
        disk.unmount()
        disk.mount()
        bookie.start()

    await asyncio.to_thread(cut)


@asynccontextmanager
async def writing(writer: WriteHandle, confirmed: list[int]) -> AsyncIterator[None]:
    """Appends all the time inside the block; notes each entry at its confirmation."""

    def note(future: asyncio.Future[int]) -> None:
        if not future.cancelled() and future.exception() is None:
            confirmed.append(future.result())

    async def forever() -> None:
        entry_id = 0
        try:
            while True:
                future = await writer.append_async(payload_of(entry_id, SIZE))
                future.add_done_callback(note)
                entry_id += 1
                await asyncio.sleep(0)
        except LedgerError:  # power is gone, or somebody has recovered the ledger
            return

    appending = asyncio.create_task(forever())
    try:
        yield
    finally:
        appending.cancel()
        await asyncio.wait([appending])
        await writer.abandon()


async def check(client: LedgerClient, writer: WriteHandle, confirmed: list[int]) -> None:
    reader = await client.open_ledger(writer.ledger_id)
    read = [entry async for entry in reader.read()]
    assert confirmed == list(range(len(confirmed)))
    assert len(read) >= len(confirmed), "a confirmed entry is lost"
    assert all(entry.payload == payload_of(entry.entry_id, SIZE) for entry in read)


async def until_more(confirmed: list[int], more: int) -> None:
    wanted = len(confirmed) + more

    async def there() -> bool:
        return len(confirmed) >= wanted

    await until_true(there)


async def test_every_confirmed_entry_survives_the_loss_of_power(tmp_path: Path, disk: FileSystem) -> None:
    """B1, B2: on the one copy there is."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri, lease_seconds=1) as (bookie,):
        rng = random.Random(1)
        async with LedgerClient(uri, config=QUICK) as client:
            for _ in range(ROUNDS):
                confirmed: list[int] = []
                writer = await one_copy(client)
                async with writing(writer, confirmed):
                    await until_more(confirmed, rng.randrange(50, 3000))
                    # A sync that is under way while the file system goes down may return as if it had been
                    # done; where power is really lost nobody is left to acknowledge it.
                    before = len(confirmed)
                    await power_cut(disk, bookie)
                await check(client, writer, confirmed[:before])


async def test_what_was_forced_survives_the_loss_of_power(tmp_path: Path, disk: FileSystem) -> None:
    """Deferred sync: an append that returned may be lost, one before a `force` that returned may not."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri, lease_seconds=1) as (bookie,):
        async with LedgerClient(uri, config=QUICK) as client:
            writer = await one_copy(client, deferred_sync=True)
            for entry_id in range(300):
                await writer.append(payload_of(entry_id, SIZE))
            await writer.force()
            forced = list(range(300))
            await writer.append(payload_of(300, SIZE))
            await power_cut(disk, bookie)
            await writer.abandon()
            await check(client, writer, forced)


async def answer_to_its_writer(client: LedgerClient, writer: WriteHandle) -> object:
    """What the bookie says to one more append of the old writer, whose own handle has given up."""
    bookies = (await client._connected()).bookies
    listener = Listener()
    key, identity = LedgerKey(writer.ledger_id, b""), writer.record.identity
    terms = LaneTerms(writer.ledger_id, key, identity=identity)
    lane = bookies.open_lane(writer.record.fragments[0].ensemble[0], terms, listener, lambda: None)
    lane.send(of_payloads(1, [b"late"], bytes(4)))

    async def has_answered() -> bool:
        return bool(listener.heard)

    await until_true(has_answered)
    return listener.heard[0]


async def test_a_fence_survives_the_loss_of_power(tmp_path: Path, disk: FileSystem) -> None:
    """R1, F13: it was answered, so it is on disk; the old writer is refused afterwards."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri, lease_seconds=1) as (bookie,):
        async with LedgerClient(uri, config=QUICK) as client, LedgerClient(uri, config=QUICK) as other:
            writer = await one_copy(client)
            await writer.append(payload_of(0, SIZE))
            await other.open_ledger(writer.ledger_id)
            await power_cut(disk, bookie)
            assert await answer_to_its_writer(client, writer) is Status.FENCED
            await check(other, writer, [0])
