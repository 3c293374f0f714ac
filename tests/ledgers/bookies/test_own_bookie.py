"""A client in its bookie's process: no network between them, and everything else as over one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bookie.disk.disk import OsDisk
from bookie.limits_config import Limits
from bookie.serving import daemon
from bookie.serving.daemon import RunningBookie
from bookie.wire.data import sockets
from bookie.wire.trust.roles import Role
from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.errors import BookieUnavailable
from metadata import open_store
from tests.bookie.serving.served import served
from tests.bookie.slow_disk import SlowSyncDisk
from tests.support.aio import until_true
from tests.support.authority import TestAuthority


@dataclass
class Setting:
    """A bookie, and a client of it that counts how often it was joined in the process."""

    running: RunningBookie
    uri: str
    certificates: str
    joined: int = 0

    @property
    def config(self) -> ClientConfig:
        def connect(end: asyncio.BufferedProtocol) -> None:
            self.joined += 1
            self.running.own.connect(end)

        own = replace(self.running.own, connect=connect)
        return ClientConfig(own_bookie=own, certificates=self.certificates)


@asynccontextmanager
async def setting(
    tmp_path: Path, certificates: Path | None = None, **settings: Any
) -> AsyncIterator[Setting]:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = await open_store(uri, create=True)
    try:
        async with served(tmp_path, store, certificates=certificates, **settings) as client:  # type: ignore[arg-type]
            yield Setting(client.bookie, uri, str(certificates or ""))
    finally:
        await store.close()


async def test_it_writes_reads_and_recovers_without_a_socket_and_is_trusted_as_the_bookie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With certificates, none of which is shown: there is no TLS."""

    async def no_socket(*_: object) -> None:
        raise AssertionError("it went over the network")

    monkeypatch.setattr(sockets, "connect", no_socket)
    authority = TestAuthority(tmp_path)
    async with (
        setting(tmp_path, authority.of(Role.BOOKIE, "b1")) as on,
        LedgerClient(on.uri, config=on.config) as client,
    ):
        writer = await client.create_ledger(ensemble_size=1)
        entries = [bytes([n % 256]) * size for n, size in enumerate([0, 1, 70_000, 1024 * 1024, 3])]
        for entry in entries:
            await writer.append(entry)
        reader = await client.open_ledger(writer.ledger_id)  # fences and recovers
        assert [entry.payload async for entry in reader.read()] == entries
        assert on.joined == 2, "one connection for appends, one for calls"


async def test_nothing_is_confirmed_before_its_sync_has_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks: list[SlowSyncDisk] = []

    def slow(directory: Path) -> OsDisk:
        disks.append(SlowSyncDisk(directory))
        return disks[-1]

    monkeypatch.setattr(daemon, "OsDisk", slow)
    async with setting(tmp_path) as on, LedgerClient(on.uri, config=on.config) as client:
        writer = await client.create_ledger(ensemble_size=1)
        await writer.append(b"before")
        disks[-1].go_on.clear()
        try:
            appended = await writer.append_async(b"while the disk hangs")
            await until_true(lambda: on.running.bookie.log_busy_seconds > 0)
            assert not appended.done()
        finally:
            disks[-1].go_on.set()
        assert await appended == 1


async def test_the_limits_of_an_address_are_its_limits_too(tmp_path: Path) -> None:
    limits = Limits(connections_max=4, peer_share=0.5)
    async with setting(tmp_path, limits=limits) as on:
        store = await open_store(on.uri)
        clients = [ConnectedBookies(store, on.config) for _ in range(3)]
        try:
            for one in clients[:2]:
                await one.info(on.running.own.bookie)
            with pytest.raises(BookieUnavailable, match="2 connections of this address are open"):
                await clients[2].info(on.running.own.bookie)
        finally:
            for one in clients:
                await one.close()
            await store.close()


async def test_a_bookie_that_stops_ends_the_connection_and_takes_no_other(tmp_path: Path) -> None:
    async with setting(tmp_path) as on:
        client = LedgerClient(on.uri, config=on.config)
        await client.connect()
        writer = await client.create_ledger(ensemble_size=1)
        await writer.append(b"before")
    try:
        with pytest.raises(ConnectionRefusedError, match="the bookie is stopping"):
            on.running.own.connect(asyncio.BufferedProtocol())
        assert client._bookies is not None
        with pytest.raises(BookieUnavailable, match="it is not registered"):
            await client._bookies.info(on.running.own.bookie)
    finally:
        await client.close()


async def test_one_of_the_same_name_elsewhere_is_reached_over_the_network(tmp_path: Path) -> None:
    async with setting(tmp_path) as on:
        store = await open_store(on.uri)
        moved = replace(on.running.own, address="127.0.0.1:1")
        bookies = ConnectedBookies(store, replace(on.config, own_bookie=moved))
        try:
            assert (await bookies.info(on.running.own.bookie)).incarnation == on.running.cookie.incarnation
            assert on.joined == 0
        finally:
            await bookies.close()
            await store.close()
