"""What closes ledgers for a bookie that mends itself, on real bookies, and how the peers themselves are closed."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from bookie.upkeep.repair_client import PeersFailed
from bookie.wire import ReadRequest
from ledgers import BookieUnavailable, LedgerFenced, LedgerState
from ledgers.config import MIB
from metadata import opened_store
from tests.support.aio import until_true
from tests.support.in_process import QUICK, on_bookies
from tests.support.processes import on_processes
from tests.support.watched_peers import Watched, WatchedBookies, payload, payloads, watched, written

PASSWORD = b"correct horse battery staple"


async def test_an_open_ledger_is_recovered_and_closed_and_its_writer_is_fenced(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 4) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=4, write_quorum=3, ack_quorum=2)
        for n in range(50):
            await writer.append(payload(n))
        async with watched(cluster.store) as seen:
            record = await seen.peers.recover(writer.ledger_id)
            assert record == await client.describe_ledger(writer.ledger_id)
            assert record is not None
            assert (record.state, record.last_entry) == (LedgerState.CLOSED, 49)
            with pytest.raises(LedgerFenced):
                await writer.append(b"late")
            mended = record.fragments[0].ensemble[0]
            assert await payloads(seen.peers, record, mended) == [payload(n) for n in range(50)]
            assert await seen.peers.recover(writer.ledger_id) == record, "and is left as it is from then on"


async def test_a_ledger_that_is_deleted_is_none(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, (3, 3, 2), 1)
        await client.delete_ledger(writer.ledger_id)
        async with watched(cluster.store) as seen:
            assert await seen.peers.recover(writer.ledger_id) is None
            assert await seen.peers.recover(4711) is None


async def test_an_open_ledger_with_a_password_is_refused_with_what_to_do_and_its_writer_left_in_peace(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        async with watched(cluster.store) as seen:
            with pytest.raises(PeersFailed) as refused:
                await seen.peers.recover(writer.ledger_id)
        assert str(refused.value) == (
            f"ledger {writer.ledger_id} is not closed, and has a password: only its owner can recover it; "
            "have its owner close it, or recover it with `bookledger ledger recover --password-file FILE "
            f"{writer.ledger_id}`, or delete it; then try again"
        )
        assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.OPEN
        assert await writer.append(b"b") == 1


async def test_a_recovery_that_cannot_be_decided_is_said_so_and_succeeds_when_the_bookies_are_back(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger()
        await writer.append(b"a")
        await writer.abandon()
        away = [bookie.bookie_id for bookie in writer.record.fragments[0].ensemble[:2]]
        for name in away:
            await cluster.stop(name)
        async with watched(cluster.store) as seen:
            with pytest.raises(PeersFailed, match=r"could not be recovered: too few .*bring back") as failed:
                await seen.peers.recover(writer.ledger_id)
            assert failed.value.ledger_id == writer.ledger_id
            assert all(f"{name}: " in str(failed.value) for name in away)
            assert "any of these bookies that are only away" in str(failed.value)
            assert f"ledger recover --accept-loss {writer.ledger_id}" in str(failed.value)
            assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.IN_RECOVERY
            for name in away:
                await cluster.start(name)
            record = await seen.peers.recover(writer.ledger_id)
            assert record is not None
            assert record.last_entry == 0


def open_connections(addresses: set[str]) -> list[str]:
    """This process's, to any of these addresses."""
    ports = {address.rpartition(":")[2] for address in addresses}
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(number))) as one:
            peer = one.getpeername() if one.family is socket.AF_INET else None
            if peer is not None and str(peer[1]) in ports:
                found.append(f"{one.getsockname()} to {peer}")
    return sorted(found)


def threads_started() -> set[threading.Thread]:
    """All but the loop's own pool, which grows as it likes."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


# --- closing ----------------------------------------------------------------------------------------


async def test_closing_leaves_no_task_no_channel_and_no_thread(tmp_path: Path) -> None:
    async with on_processes(tmp_path, 3) as (cluster, client), opened_store(cluster.uri) as store:
        record = (await written(client, (3, 2, 2), 20_000)).record
        writer = await client.create_ledger()
        tasks, threads = asyncio.all_tasks(), threads_started()
        seen = Watched(store)

        async def threads_have_ended() -> bool:
            return threads_started() <= threads  # one of an earlier test may end meanwhile

        addresses = {one.address for one in await client.list_bookies()}
        connected = open_connections(addresses)
        await seen.peers.recover(writer.ledger_id)
        pages = seen.peers.entries(record, 0, 19_999, without=record.fragments[0].ensemble[0])
        async with aclosing(pages):
            await anext(pages)
            assert asyncio.all_tasks() > tasks, "it reads ahead"
        await seen.peers.close()
        assert asyncio.all_tasks() <= tasks
        await until_true(threads_have_ended)
        assert seen.bookies.addresses <= addresses
        assert open_connections(addresses) == connected


async def test_a_client_of_bookies_that_was_closed_makes_no_connection_any_more(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        record = (await written(client, (3, 3, 2), 1)).record
        bookies = WatchedBookies(cluster.store, QUICK)
        await bookies.close()
        bookie = record.fragments[0].ensemble[0]
        with pytest.raises(BookieUnavailable, match="this client is closed"):
            await bookies.read(bookie, ReadRequest(bookie.incarnation, record.ledger_id, 0, 0, MIB))
        assert not bookies.addresses
