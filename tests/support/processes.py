"""Real bookies in processes of their own, which a test may stop, kill and start again."""

from __future__ import annotations

import asyncio
import fcntl
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from metadata.records.ledger_record import BookieRef
from tests.support.waiting import until


def pause(bookie: BookieProcess) -> None:
    """SIGSTOP: it keeps its connections and answers nothing. Never while it writes to a metadata file, whose lock
    everybody else would wait for."""
    with ExitStack() as locked:
        if bookie.metadata_uri.startswith("sqlite://"):
            file = locked.enter_context(open(bookie.metadata_uri.removeprefix("sqlite://") + ".lock", "rb"))
            fcntl.flock(file, fcntl.LOCK_EX)
        bookie.child.signal(signal.SIGSTOP)
        until(lambda: psutil.Process(bookie.child.pid).status() == psutil.STATUS_STOPPED)


@contextmanager
def serving(bookies: Iterable[BookieProcess]) -> Iterator[None]:
    """Those that are formatted, started at once; all of them stop in order at the end."""
    try:
        for bookie in bookies:
            bookie.launch()
        for bookie in bookies:
            bookie.await_ready()
        yield
    finally:
        codes = [bookie.stop() for bookie in bookies]
    assert not any(codes), codes


@contextmanager
def hung(bookies: Iterable[BookieProcess]) -> Iterator[None]:
    """They are paused meanwhile."""
    for bookie in bookies:
        pause(bookie)
    try:
        yield
    finally:
        for bookie in bookies:
            bookie.child.signal(signal.SIGCONT)


@dataclass(frozen=True)
class ProcessCluster:
    """Bookies by the name the metadata gives them."""

    uri: str
    bookies: dict[str, BookieProcess]

    def pause(self, bookie: BookieRef) -> None:
        pause(self.bookies[bookie.bookie_id])

    def kill(self, bookie: BookieRef) -> None:
        self.bookies[bookie.bookie_id].kill()

    async def restart(self, bookie: BookieRef) -> None:
        await asyncio.to_thread(self.bookies[bookie.bookie_id].start)

    def resume_all(self) -> None:
        for bookie in self.bookies.values():
            with suppress(ProcessLookupError):
                bookie.child.signal(signal.SIGCONT)


@asynccontextmanager
async def on_processes(
    tmp_path: Path, bookies: int, config: ClientConfig | None = None, uri: str = "", **more: Any
) -> AsyncIterator[tuple[ProcessCluster, LedgerClient]]:
    """So many bookies, each a process, with one client. `uri`: of the metadata, in a file of its own by default."""
    uri = uri or f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(bookies, tmp_path, uri, **more) as started:
        cluster = ProcessCluster(uri, {bookie.bookie_id: bookie for bookie in started})
        try:
            async with LedgerClient(uri, config=config) as client:
                yield cluster, client
        finally:
            cluster.resume_all()
