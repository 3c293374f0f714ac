"""What Prometheus reads of each kind of process, after each has done something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from bookledger.cli.processes import BOOKLEDGER, Child, started
from ledgers import ClientConfig, LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from qjm_compat import JournalMetrics
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.acceptor.one_writer import edits
from tests.support.aio import run
from tests.support.http import HttpBookie, get
from tests.support.journal_node_daemons import JournalNodeDaemon, qjournal
from tests.support.waiting import until

BOOKIE, AUTORECOVERY, JOURNAL, APPLICATION = "bookie", "autorecovery", "journal", "application"
OFFLOADER = "offloader"


class BookieWithALog(HttpBookie):
    """There is one with a cursor before there is an auditor: its first round sees it, and tells of it."""

    def launch(self) -> None:
        with LedgerClient(self.metadata_uri) as client:
            client.create_log("log", ensemble_size=1).cursor("reader").close()
        super().launch()


def every_page(path: Path) -> dict[str, str]:
    """By the kind of process: bookie, `autorecovery`, `offloader`, `journal serve`, an application with a registry."""
    uri = uri_of(path / "metadata.db")
    bookie = BookieWithALog("b1", path / "b1", uri, options=["--http=127.0.0.1:0"])
    with started([bookie]):
        registry = CollectorRegistry()
        with _using_ledgers(uri, registry):
            return {
                JOURNAL: _of_a_journal(path, uri, registry),
                AUTORECOVERY: _of_an_auditor(path, uri),
                OFFLOADER: _of_an_offloader(path, uri),
                BOOKIE: _of_a_bookie(bookie.url),
                APPLICATION: generate_latest(registry).decode(),
            }


def _of(url: str) -> str:
    status, page = get(f"{url}/metrics")
    assert status == 200
    return page


@contextmanager
def _using_ledgers(uri: str, registry: CollectorRegistry) -> Iterator[None]:
    """While it lasts a consumer goes on."""
    with LedgerClient(uri, config=ClientConfig(metrics=registry)) as client:
        with client.create_ledger(ensemble_size=1) as writer:
            writer.append(b"x")
        assert list(client.open_ledger(writer.ledger_id).read())
        with client.log("log").writer() as log_writer:
            log_writer.append(b"x")
        records = client.log("log").consume("reader")
        assert next(records).payload == b"x"
        yield


def _of_a_bookie(url: str) -> str:
    """Once its auditor has been through all logs."""
    until(lambda: "bookledger_log_cursor_lag_seconds{" in _of(url))
    return _of(url)


def _of_a_journal(path: Path, uri: str, registry: CollectorRegistry) -> str:
    """The daemon's page; what the writer sees of it stays in the registry."""

    async def write(daemon: JournalNodeDaemon) -> str:
        namespace = NamespaceInfo(7, "CID-x", layout_version=-63)
        async with QuorumJournalManager(qjournal([daemon.address])) as manager:
            await manager.format(namespace)
            await manager.recover_unfinalized_segments()
            out = await manager.start_log_segment(1)
            out.write_raw(edits(1, 3, 1), 3)
            out.set_ready_to_flush()
            await out.flush()
            told = manager.metrics()
            registry.register(JournalMetrics(lambda: told))
            return _of(f"http://{daemon.http_address}")

    with JournalNodeDaemon(uri, "jn1", path, "--ensemble", "1") as daemon:
        return run(write(daemon))


def _of_an_offloader(path: Path, uri: str) -> str:
    (path / "archive").mkdir()
    command = (*BOOKLEDGER, "offloader", f"--metadata={uri}", f"--cold=file://{path}/archive", "--after=0")
    offloader = Child(
        (*command, "--http=127.0.0.1:0", "--json"), name="offloader", log=path / "offloader.log"
    )
    try:
        url = offloader.hear()["http"]
        until(
            lambda: re.search(r"^bookledger_offloader_copied_ledgers_total [1-9]", _of(url), re.M) is not None
        )
        return _of(url)
    finally:
        assert offloader.stop() == 0


def _of_an_auditor(path: Path, uri: str) -> str:
    command = (*BOOKLEDGER, "autorecovery", f"--metadata={uri}", "--http=127.0.0.1:0", "--json")
    auditor = Child(command, name="autorecovery", log=path / "autorecovery.log")
    try:
        url = auditor.hear()["http"]
        until(lambda: 'bookledger_metadata_calls_total{call="get",outcome="done"}' in _of(url))
        return _of(url)
    finally:
        assert auditor.stop() == 0
