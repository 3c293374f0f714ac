"""What is besieged: three bookies with HTTP ports, a ledger with large entries, and many ledgers to be searched."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bookie.wire.trust.identity import Identity
from bookie.wire.trust.roles import Role
from bookledger.cli.certs.authority import Authority, make_authority
from bookledger.cli.processes import started
from ledgers.aio import LedgerClient
from metadata import keys, open_store
from metadata.records import ledger_codec
from metadata.records.ledger_ids import take_ledger_ids
from metadata.records.ledger_record import Fragment, LedgerRecord
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.http import HttpBookie

BOOKIES = 3
LARGE_ENTRIES, LARGE_BYTES = 8, 4 * 1024 * 1024 - 4096
EMPTY_LEDGERS = 20_000


@dataclass(frozen=True)
class Fortress:
    """Three bookies. `certificates`: a directory with those of a client and of a console; "" in plain text."""

    bookies: list[HttpBookie]
    database: Path
    certificates: str

    @property
    def uri(self) -> str:
        return uri_of(self.database)

    @property
    def of_clients(self) -> str:
        return f"{self.certificates}/{Role.CLIENT.value}" if self.certificates else ""


class Memory:
    """The most that each bookie had resident."""

    def __init__(self, bookies: list[HttpBookie]) -> None:
        self.most_mib = 0
        self.processes = [psutil.Process(bookie.child.pid) for bookie in bookies]

    async def watch(self) -> None:
        while True:
            for process in self.processes:
                self.most_mib = max(self.most_mib, process.memory_info().rss >> 20)
            await asyncio.sleep(0.2)


@contextmanager
def fortress(scratch: Path, *, tls: bool) -> Iterator[Fortress]:
    """Bookies that run inside the block."""
    database, certificates = scratch / "metadata.db", scratch / "certificates" if tls else None
    options = {f"bookie-{number}": ["--http=127.0.0.1:0"] for number in range(1, BOOKIES + 1)}
    if certificates is not None:
        make_authority(scratch / "authority", "siege", days=1)
        authority = Authority(scratch / "authority")
        for role in (Role.CLIENT, Role.CONSOLE):
            authority.issue(certificates / role.value, Identity(role, "siege"), [], 1)
        for name, given in options.items():
            authority.issue(certificates / name, Identity(Role.BOOKIE, name), ["127.0.0.1"], 1)
            given.append(f"--certs={certificates / name}")
    bookies = [HttpBookie(name, scratch / name, uri_of(database), options=options[name]) for name in options]
    with started(bookies):
        yield Fortress(bookies, database, str(certificates or ""))


async def large(client: LedgerClient) -> LedgerRecord:
    """A ledger whose pages are as large as any."""
    async with await client.create_ledger() as writer:
        for _ in range(LARGE_ENTRIES):
            await writer.append(bytes(LARGE_BYTES))
    return writer.record


async def many_empty(where: Fortress, like: LedgerRecord) -> None:
    """Closed ledgers without entries, put into the file at once: a commit each would take minutes."""
    store = await open_store(where.uri)
    ids = await take_ledger_ids(store, EMPTY_LEDGERS)
    await store.close()
    ensemble = like.fragments[0].ensemble
    empty = replace(like, fragments=(Fragment(0, ensemble, 0),), last_entry=-1, length_bytes=0)
    rows = ((keys.ledger(n), ledger_codec.encode(replace(empty, ledger_id=n)), 1) for n in ids)
    with sqlite3.connect(where.database) as database:
        database.executemany("INSERT INTO keys (key, value, version) VALUES (?, ?, ?)", rows)
    database.close()


@asynccontextmanager
async def besieged(
    where: Fortress, large_ledger: LedgerRecord, only: str, nice: int
) -> AsyncIterator[dict[str, int]]:
    """Strangers at work inside the block; afterwards, how often each attack was begun."""
    addresses = [f"127.0.0.1:{bookie.port},{bookie.url.partition('://')[2]}" for bookie in where.bookies]
    target = f"{large_ledger.ledger_id}:{large_ledger.identity.hex()}"
    command = [
        sys.executable, "-m", "tests.siege.strangers", str(nice), target, only, where.certificates, *addresses
    ]  # fmt: skip
    with _working(command) as (strangers, told):
        while not _counted(told):
            assert strangers.poll() is None, "the strangers never came"
            await asyncio.sleep(0.05)
        counts: dict[str, int] = {}
        yield counts
        assert strangers.poll() is None, "the strangers have gone"
        counts.update(_counted(told))


@contextmanager
def _working(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process, and the file of what it tells."""
    with tempfile.NamedTemporaryFile() as told, subprocess.Popen(command, stdout=told) as process:
        try:
            yield process, told.name
        finally:
            process.kill()
            process.wait()


def _counted(path: str) -> dict[str, int]:
    """What the strangers have told last."""
    lines = [line for line in Path(path).read_text().splitlines(keepends=True) if line.endswith("\n")]
    found: dict[str, int] = json.loads(lines[-1]) if lines else {}
    return found
