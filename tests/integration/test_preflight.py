"""The client in surroundings that are not its own: a running event loop, proxies, closed channels."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import ledgers
from bookledger.cli.processes import bookie_processes
from ledgers import BookieUnavailable, ClientClosed, ClientConfig, LedgerClosed, NewLedger, NoSuchLedger
from ledgers.aio import LedgerClient, ReadHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from tests.support.aio import until_true
from tests.support.command_line import bookledger
from tests.support.in_process import InProcessCluster
from tests.support.processes import on_processes

HUNG = BookieRef("hung", "i1")


async def test_the_blocking_client_works_under_a_running_event_loop(cluster: InProcessCluster) -> None:
    """As in a notebook, or in a web handler that is not careful."""

    async def on_a_loop(uri: str) -> list[bytes]:
        with ledgers.LedgerClient(uri) as client:
            with client.create_ledger() as writer:
                writer.append(b"under a loop")
            return [entry.payload for entry in client.open_ledger(writer.ledger_id).read()]

    assert await asyncio.to_thread(asyncio.run, on_a_loop(cluster.uri)) == [b"under a loop"]


def test_a_proxy_in_the_environment_is_not_asked_for_bookies(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with socket.create_server(("127.0.0.1", 0)) as nobody, bookie_processes(3, tmp_path, uri):
        proxy = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        environment = {**os.environ, **dict.fromkeys(names, proxy)}
        done = bookledger("ledger", "append", f"--metadata={uri}", stdin=b"one\n", env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        nobody.setblocking(False)
        with pytest.raises(BlockingIOError):
            nobody.accept()


@pytest.mark.parametrize("append_seconds_max", [1.0, 60.0])
async def test_a_call_whose_connection_is_given_up_fails_and_cancels_nobody(
    append_seconds_max: float,
) -> None:
    """The task that asked goes on, whether the bookie had greeted back by then or not."""
    with socket.create_server(("127.0.0.1", 0)) as accepts_and_is_silent:
        store = MemoryStore()
        port = accepts_and_is_silent.getsockname()[1]
        registration = Registration(HUNG, f"127.0.0.1:{port}")
        await store.create(registration.key, registration.encode())
        bookies = ConnectedBookies(store, ClientConfig(append_seconds_max=append_seconds_max))
        asking = asyncio.create_task(bookies.info(HUNG))
        await until_true(lambda: asyncio.sleep(0, HUNG in bookies._calls))
        await bookies._calls[HUNG].close()
        with pytest.raises(BookieUnavailable):
            await asking
        await bookies.close()


@pytest.mark.parametrize("recovery", [True, False], ids=["recovering", "looking on"])
async def test_a_client_that_is_closed_while_it_opens_a_ledger_says_so_and_nothing_of_bookies(
    tmp_path: Path, recovery: bool
) -> None:
    async with on_processes(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger()
        await writer.append(b"x")
        for bookie in writer.record.fragments[0].ensemble[:2]:
            cluster.pause(bookie)
        other = LedgerClient(cluster.uri, config=ClientConfig(read_seconds_max=50))
        opening = asyncio.create_task(other.open_ledger(writer.ledger_id, recovery=recovery))
        await until_true(
            lambda: asyncio.sleep(0, other._bookies is not None and len(other._bookies._calls) == 3)
        )
        await other.close()
        with pytest.raises(ClientClosed):
            await opening
        cluster.resume_all()
        await writer.abandon()


CALLS: dict[str, Callable[[LedgerClient], Awaitable[object]]] = {
    "create_ledger": lambda client: client.create_ledger(),
    "create_ledger_adv": lambda client: client.create_ledger_adv(),
    "reserve_ledger": lambda client: client.reserve_ledger(NewLedger()),
    "claim_ledger": lambda client: client.claim_ledger(1),
    "describe_ledger": lambda client: client.describe_ledger(1),
    "list_bookies": lambda client: client.list_bookies(),
    "delete_ledger": lambda client: client.delete_ledger(1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_client_that_is_closed_at_any_moment_of_a_call_ends_it_well_or_with_client_closed(
    cluster: InProcessCluster, client: LedgerClient, call: Callable[[LedgerClient], Awaitable[object]]
) -> None:
    for turns in range(0, 120, 4):
        await client.reserve_ledger(NewLedger())
        other = LedgerClient(cluster.uri)
        await other.connect()
        calling = asyncio.ensure_future(call(other))
        for _ in range(turns):
            await asyncio.sleep(0)
        await other.close()
        (end,) = await asyncio.gather(calling, return_exceptions=True)
        well = not isinstance(end, BaseException) or isinstance(end, NoSuchLedger | LedgerClosed)
        assert well or isinstance(end, ClientClosed), repr(end)


async def is_confirmed(reader: ReadHandle) -> bool:
    return await reader.try_read_last_add_confirmed() >= 0


READS: dict[str, Callable[[ReadHandle], Awaitable[object]]] = {
    "read_batch": lambda reader: reader.read_batch(0, entries_max=1, bytes_max=1000),
    "read_last_add_confirmed": lambda reader: reader.read_last_add_confirmed(),
    "try_read_last_add_confirmed": lambda reader: reader.try_read_last_add_confirmed(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
async def test_a_client_that_is_closed_at_any_moment_of_a_read_ends_it_well_or_with_client_closed(
    cluster: InProcessCluster, client: LedgerClient, read: Callable[[ReadHandle], Awaitable[object]]
) -> None:
    async with await client.create_ledger() as writer:
        await writer.append(b"0")
        seen = await client.open_ledger(writer.ledger_id, recovery=False)
        await until_true(lambda: is_confirmed(seen))  # the idle writer has told its bookies
        for turns in range(0, 60, 2):
            other = LedgerClient(cluster.uri)
            reader = await other.open_ledger(writer.ledger_id, recovery=False)
            reading = asyncio.ensure_future(read(reader))
            for _ in range(turns):
                await asyncio.sleep(0)
            await other.close()
            (end,) = await asyncio.gather(reading, return_exceptions=True)
            assert not isinstance(end, BaseException) or isinstance(end, ClientClosed), repr(end)
