"""The blocking client on real bookies: the contract, waiting for room, closing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

import ledgers
from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig, Columns, Entry, NoSuchEntry, NoSuchLedger, NotEnoughBookies
from ledgers.blocking.client import ClientClosed
from ledgers.config import MIB
from tests.support.blocking import in_thread
from tests.support.in_process import InProcessCluster
from tests.support.processes import pause


def payloads_of(pages: Iterator[Columns]) -> list[tuple[int, bytes]]:
    """As the documentation tells it: entry `ids[n]` is `payload[offsets[n]:offsets[n + 1]]`."""
    return [
        (entry_id, bytes(page.payload[start:end]))
        for page in pages
        for entry_id, (start, end) in zip(page.ids, pairwise(page.offsets), strict=True)
    ]


async def test_the_contract_of_the_blocking_client(cluster: InProcessCluster) -> None:
    def use_it(uri: str) -> None:
        with ledgers.LedgerClient(uri) as client:
            with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
                assert writer.append(b"zero") == 0
                futures = [writer.append_async(b"%d" % n) for n in range(1, 500)]
                writer.flush()
                assert [future.result() for future in futures] == list(range(1, 500))
                assert writer.last_add_confirmed == 499
            reader = client.open_ledger(writer.ledger_id)
            assert next(iter(reader.read(0, 0))) == Entry(0, b"zero")
            assert [e.entry_id for e in reader.read(0, reader.last_add_confirmed)] == list(range(500))
            assert reader.read_entry(7).payload == b"7"
            batch = reader.read_batch(7, entries_max=3, bytes_max=1000)
            assert batch == [Entry(n, b"%d" % n) for n in (7, 8, 9)]
            assert [e.entry_id for e in reader.read_unconfirmed(490, 499)] == list(range(490, 500))
            assert payloads_of(reader.pages(7, 9)) == [(7, b"7"), (8, b"8"), (9, b"9")]
            assert payloads_of(reader.read_unconfirmed_pages(498, 499)) == [(498, b"498"), (499, b"499")]
            assert payloads_of(reader.tail_pages(499)) == [(499, b"499")]
            assert reader.try_read_last_add_confirmed() == reader.read_last_add_confirmed() == 499
            with pytest.raises(NoSuchEntry):
                reader.read_entry(500)
            follower = client.open_ledger(writer.ledger_id, recovery=False)
            assert [e.entry_id for e in follower.tail(498)] == [498, 499]
            assert [r.ledger_id for r in client.list_ledgers()] == [writer.ledger_id]
            assert client.describe_ledger(writer.ledger_id).length_bytes == 4 + 9 + 2 * 90 + 3 * 400
            client.delete_ledger(writer.ledger_id)
            with pytest.raises(NoSuchLedger):
                client.open_ledger(writer.ledger_id)

    await asyncio.to_thread(use_it, cluster.uri)


async def test_a_blocked_append_is_told_when_its_writer_ends(cluster: InProcessCluster) -> None:
    config = ClientConfig(pending_bytes_max=1024 * 1024, append_seconds_max=1, append_quorum_seconds_max=1)

    def append_for_ever(writer: ledgers.WriteHandle) -> None:
        while True:
            writer.append_async(bytes(100_000))

    def use_it() -> None:
        with ledgers.LedgerClient(cluster.uri, config=config) as client:
            writer = client.create_ledger()
            writer.append(b"x")
            asyncio.run_coroutine_threadsafe(stop_two(), loop).result()
            with pytest.raises(NotEnoughBookies):
                append_for_ever(writer)

    async def stop_two() -> None:
        await cluster.stop("b1")
        await cluster.stop("b2")

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(use_it)


def test_an_advanced_writer_bounds_what_waits_for_a_gap_and_takes_what_fills_it(uri: str) -> None:
    config = ClientConfig(pending_bytes_max=MIB)
    with ledgers.LedgerClient(uri, config=config) as client, client.create_ledger_adv() as writer:
        assert (writer.first_gap, writer.last_add_confirmed) == (0, -1)
        early: list[Future[int]] = []

        def append_early() -> None:
            for entry_id in range(1, 12):
                early.append(writer.append_async(entry_id, bytes(300_000)))

        appending = in_thread(append_early)
        while writer._room.handed_bytes + writer._twin.unconfirmed_bytes < config.pending_bytes_max:
            assert len(early) < 11, "it took in more than its bounds"
        assert writer.append_async(0, b"fills the gap").result(20) == 0
        appending()
        assert [future.result() for future in early] == list(range(1, 12))


CALLS: dict[str, Callable[[Session], object]] = {
    "append": lambda s: s.writer.append(b"late"),
    "append_async": lambda s: s.writer.append_async(b"late"),
    "flush": lambda s: s.writer.flush(),
    "read": lambda s: next(s.reader.read()),
    "go on reading": lambda s: list(s.half_read),
    "read_entry": lambda s: s.reader.read_entry(0),
    "read_batch": lambda s: s.reader.read_batch(0, entries_max=1, bytes_max=1),
    "read_unconfirmed": lambda s: next(s.reader.read_unconfirmed(0, 0)),
    "tail": lambda s: next(s.reader.tail()),
    "try_read_last_add_confirmed": lambda s: s.reader.try_read_last_add_confirmed(),
    "read_last_add_confirmed": lambda s: s.reader.read_last_add_confirmed(),
    "create_ledger": lambda s: s.client.create_ledger(),
    "create_ledger_adv": lambda s: s.client.create_ledger_adv(),
    "open_ledger": lambda s: s.client.open_ledger(0),
    "list_ledgers": lambda s: next(s.client.list_ledgers()),
    "describe_ledger": lambda s: s.client.describe_ledger(0),
    "delete_ledger": lambda s: s.client.delete_ledger(0),
    "list_bookies": lambda s: s.client.list_bookies(),
}


@dataclass
class Session:
    client: ledgers.LedgerClient
    writer: ledgers.WriteHandle
    reader: ledgers.ReadHandle
    half_read: Iterator[Entry]


def session(uri: str) -> Session:
    client = ledgers.LedgerClient(uri)
    writer = client.create_ledger()
    for n in range(5000):
        writer.append_async(b"%d" % n * 500)
    writer.flush()
    reader = client.open_ledger(writer.ledger_id, recovery=False)
    half_read = reader.read()
    next(half_read)
    return Session(client, writer, reader, half_read)


def test_after_the_client_is_closed_every_call_says_so(uri: str) -> None:
    closed = session(uri)
    closed.client.close()
    closed.client.close()
    for name, call in CALLS.items():
        with pytest.raises(ClientClosed, match="this client is closed"):
            call(closed)
            pytest.fail(f"{name} did not notice")
    closed.writer.close()  # the client has done that already
    assert closed.reader.last_add_confirmed >= 0, "what was known is still told"


def test_calls_that_wait_while_the_client_is_closed_end_with_that_error(uri: str) -> None:
    closing = session(uri)
    start = closing.reader.last_add_confirmed + 1
    tailing = in_thread(lambda: list(closing.reader.tail(start)))
    closing.reader.read_last_add_confirmed()
    closers = [in_thread(closing.client.close) for _ in range(3)]
    assert isinstance(tailing(), ClientClosed)
    assert [closer() for closer in closers] == [None] * 3


def test_an_append_that_waits_for_room_while_the_client_is_closed_ends_with_that_error(
    tmp_path: Path,
) -> None:
    def append_for_ever(writer: ledgers.WriteHandle) -> None:
        while True:
            writer.append_async(bytes(100_000))

    uri = f"sqlite://{tmp_path}/metadata.db"
    config = ClientConfig(pending_bytes_max=MIB, append_seconds_max=60)
    with bookie_processes(3, tmp_path, uri) as bookies, ledgers.LedgerClient(uri, config=config) as client:
        writer = client.create_ledger()
        for bookie in bookies:
            pause(bookie)
        appending = in_thread(lambda: append_for_ever(writer))
        while writer._free_bytes() > 0:
            time.sleep(0.01)
        client.close()
        assert isinstance(appending(), ClientClosed)
