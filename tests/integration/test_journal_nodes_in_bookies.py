"""`bookledger bookie run --journal-node`: bookies that are JournalNodes, too, as NameNodes and operators meet them."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT

import pytest

from bookledger.cli.processes import started
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import JournalError
from qjm_compat.manager.output_stream import EditLogOutputStream
from tests.qjm_compat.auditor import Confirmed, audit, confirmed_batch, differing_copies
from tests.qjm_compat.journals import NAMESPACE, frames, write_segment
from tests.support.aio import run
from tests.support.command_line import bookledger
from tests.support.failing_disk import LOG, Call, FailingDisk, compiled
from tests.support.http import get
from tests.support.journal_node_daemons import BookieWithNode, JournalNodeDaemon, qjournal
from tests.support.processes import pause
from tests.support.waiting import until

LEASE_SECONDS = 1.0
FLUSHES, TXNS = 8, 3


@contextmanager
def cluster(
    tmp_path: Path, count: int = 3, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[BookieWithNode]]]:
    uri = f"sqlite://{tmp_path}/metadata.db"
    bookies = [
        BookieWithNode(f"b{n}", tmp_path / f"b{n}", uri, lease_seconds=LEASE_SECONDS, environment=environment)
        for n in range(1, count + 1)
    ]
    with started(bookies):
        yield uri, bookies


class Writer:
    """Writes one segment after the other, and notes what was confirmed."""

    def __init__(self, manager: QuorumJournalManager) -> None:
        self.notes: list[Confirmed] = []
        self._manager = manager
        self._last = 0

    async def segment(self, *meanwhile: object) -> None:
        """`meanwhile`: what is done in the midst of it."""
        first = self._last + 1
        out = await self._manager.start_log_segment(first)
        for n in range(FLUSHES):
            flushing = asyncio.ensure_future(self._flush(out))
            if n == FLUSHES // 2:
                await asyncio.sleep(0)  # its calls go out
                for act in meanwhile:
                    assert callable(act)
                    act()
            await flushing
        await out.close()
        await self._manager.finalize_log_segment(first, self._last)

    async def _flush(self, out: EditLogOutputStream) -> None:
        first, last = self._last + 1, self._last + TXNS
        records = frames(first, TXNS, "w")
        out.write_raw(records, TXNS)
        out.set_ready_to_flush()
        assert await out.flush() == last
        self.notes.append(confirmed_batch(first, last, records, "w"))
        self._last = last


async def back(bookie: BookieWithNode) -> None:
    await asyncio.to_thread(bookie.start)
    await asyncio.to_thread(until, lambda: bookie.serves)


@pytest.mark.timeout(200)
def test_what_was_confirmed_is_there_where_one_of_three_is_killed_or_hangs_while_a_writer_appends(
    tmp_path: Path,
) -> None:
    """Each copy of an edit is on one bookie: a JournalNode's own."""

    async def scenario(bookies: list[BookieWithNode]) -> None:
        where = qjournal([one.rpc for one in bookies])
        for one in bookies:
            await asyncio.to_thread(until, lambda one=one: one.serves)  # type: ignore[misc]
        async with QuorumJournalManager(where) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            writer = Writer(manager)
            await writer.segment(bookies[0].kill)
            await back(bookies[0])
            await writer.segment(lambda: pause(bookies[1]))
            bookies[1].child.signal(SIGCONT)
            await writer.segment()
            assert len(writer.notes) == 3 * FLUSHES
        bookies[2].kill()  # the two that are left lacked a segment each
        async with QuorumJournalManager(where) as manager:
            recovered = await manager.recover_unfinalized_segments()
            assert recovered is None or recovered.end_txid == 3 * FLUSHES * TXNS
            await back(bookies[2])
            await write_segment(manager, 3 * FLUSHES * TXNS + 1, 3 * FLUSHES * TXNS + TXNS, "last")
            await audit(manager, writer.notes)
            assert await differing_copies(manager) == []

    with cluster(tmp_path) as (uri, bookies):
        run(scenario(bookies), timeout_seconds=150)
        shown = bookledger("journal", "show", "ns1", "--metadata", uri, *_acceptors(bookies), "--json")
        assert shown.returncode == 0, shown.stderr
        assert {one.name for one in bookies} == {"b1", "b2", "b3"}
        for name, homes in _homes(uri).items():
            assert name in homes


def _acceptors(bookies: list[BookieWithNode]) -> list[str]:
    return [f"--acceptor={one.name}" for one in bookies]


def _homes(uri: str) -> dict[str, set[str]]:
    """By acceptor, the bookies that hold its edits."""
    found: dict[str, set[str]] = {}
    done = bookledger("ledger", "list", "--metadata", uri, "--json")
    for line in done.stdout.splitlines():
        ledger = bookledger("ledger", "show", str(json.loads(line)["ledger_id"]), "--metadata", uri, "--json")
        record = json.loads(ledger.stdout)
        acceptor = b64decode(record["custom_metadata"]["bookledger.acceptor"]).decode()
        named = [bookie["bookie_id"] for one in record["fragments"] for bookie in one["bookies"]]
        found.setdefault(acceptor, set()).update(named)
    return found


def test_a_disk_that_fails_ends_both_and_what_was_confirmed_is_there_afterwards(tmp_path: Path) -> None:
    disk = FailingDisk(compiled(tmp_path), tmp_path)

    async def write(where: str) -> list[Confirmed]:
        async with QuorumJournalManager(where) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            writer = Writer(manager)
            with pytest.raises(JournalError):
                await writer.segment(lambda: disk.fail(Call.SYNC, LOG))
            return writer.notes

    async def look(where: str, notes: list[Confirmed]) -> None:
        async with QuorumJournalManager(where) as manager:
            await manager.recover_unfinalized_segments()
            await audit(manager, notes)

    with cluster(tmp_path, 1, disk.environment) as (_, (bookie,)):
        until(lambda: bookie.serves)
        notes = run(write(qjournal([bookie.rpc])))
        assert bookie.child.wait() == 1 and disk.failures == 1
        assert len(notes) in (FLUSHES // 2, FLUSHES // 2 + 1)  # the one under way may have been synced before
        bookie.environment = None
        bookie.start()
        until(lambda: bookie.serves)
        run(look(qjournal([bookie.rpc]), notes))


def test_it_is_seen_as_a_daemon_of_journal_serve_is(tmp_path: Path) -> None:
    with cluster(tmp_path, 1) as (_, (bookie,)):
        until(lambda: bookie.serves)
        url = f"http://{bookie.http}"
        assert json.loads(get(f"{url}/jmx")[1])["beans"]
        assert get(f"{url}/journals")[0] == 200
        metrics = get(f"{url}/metrics")[1]
        assert "\nbookledger_journalnode_connections_limit" in metrics
        assert get(f"{url}/getJournal?jid=none&segmentTxId=1")[0] == 404
        assert bookie.stop() == 0
        log = bookie.log.read_text()
        assert log.index("journal node b1 is stopping") < log.index("b1: stopping as requested")


def test_a_bookie_serves_while_another_daemon_has_the_name_of_its_node(tmp_path: Path) -> None:
    """It takes the name back, at the same addresses, as soon as it is free."""
    with cluster(tmp_path, 1) as (uri, (bookie,)):
        until(lambda: bookie.serves)
        pause(bookie)
        with JournalNodeDaemon(uri, "b1", tmp_path) as daemon:
            bookie.child.signal(SIGCONT)
            until(lambda: "the name b1 was lost: " in bookie.log.read_text())
            until(lambda: "another daemon serves as b1;" in bookie.log.read_text())  # it has tried again
            entries = bookledger("ledger", "append", "--metadata", uri, "--ensemble=1", stdin=b"1\n2\n")
            assert entries.returncode == 0, entries.stderr
            assert not bookie.serves
            assert daemon.stop() == 0
        until(lambda: bookie.serves)
        assert bookie.stop() == 0
