"""The order in which a bookie starts and stops, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random

import pytest

from bookie.errors import DataDirectoryError, LogFailed, NameTaken
from bookie.serving import daemon, listener
from bookie.serving.daemon import RunningBookie, serving, until_one_fails
from bookie.wire.data.framing import FrameKind
from bookie.wire.messages import (
    Ack,
    Status,
)
from metadata.memory import MemoryStore
from metadata.records.cluster import find_bookie
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from tests.bookie.bookies import entries
from tests.bookie.entries import entries_of, frame_of
from tests.bookie.serving.served import Client, LeaseEndingStore, formatted, plain, serve_until, served
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.present import there

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


async def test_a_bookie_that_lost_its_name_ends_with_the_reason(tmp_path: Path) -> None:
    """M2: who runs the bookie is told NameTaken and nothing else."""
    store = LeaseEndingStore()
    config = await formatted(tmp_path, store, lease_seconds=1.0)
    with pytest.raises(NameTaken, match="another bookie is registered as b1"):
        async with serving(config, store) as running:
            other = Registration(BookieRef("b1", "another incarnation"), running.address)
            await store.end_leases()
            await store.create(other.key, other.encode())
            await asyncio.Event().wait()
