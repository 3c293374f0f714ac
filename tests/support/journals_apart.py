"""A journal with three acceptors, each on a cluster of its own: one bookie process, and metadata in SQLite."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bookledger.cli.processes import BookieProcess
from ledgers import ClientConfig
from qjm_compat import AcceptorConfig, JournalConfig
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.journals import JOURNAL, NAMESPACE
from tests.support.aio import until_true
from tests.support.command_line import bookledger

CONFIG = JournalConfig(ensemble_size=1, sync_interval_seconds=0)
CLIENT = ClientConfig(append_seconds_max=2, retry_replacement_seconds=0.1, read_seconds_max=5)
NAMES = ("a", "b", "c")


class Apart:
    """`uris` says where each acceptor is now; one that is replaced gets another cluster under its name."""

    def __init__(self, directory: Path) -> None:
        self.bookies: dict[str, BookieProcess] = {}
        self.uris: dict[str, str] = {}
        self._directory = directory
        self._made = 0

    def make_cluster(self, name: str) -> None:
        """An empty one for this acceptor."""
        self._made += 1
        directory = self._directory / f"{name}-{self._made}"
        directory.mkdir()
        self.uris[name] = f"sqlite://{directory}/metadata.db"
        bookie = self.bookies[name] = BookieProcess("bookie-1", directory / "bookie", self.uris[name])
        bookie.format()
        bookie.start()

    def lose(self, name: str) -> None:
        """Its host and its disk are gone."""
        self.bookies[name].kill()
        shutil.rmtree(Path(self.uris[name].removeprefix("sqlite://")).parent)

    def close(self) -> None:
        for bookie in self.bookies.values():
            bookie.kill()

    # --- in this process ------------------------------------------------------------------------------

    def acceptors(self) -> list[AcceptorConfig]:
        return [AcceptorConfig(name, self.uris[name]) for name in NAMES]

    def manager(self) -> QuorumJournalManager:
        acceptors = self.acceptors()
        return QuorumJournalManager(
            acceptors[0].metadata_uri, JOURNAL, acceptors=acceptors, config=CONFIG, client_config=CLIENT
        )

    async def everywhere(self, start_txid: int) -> None:
        """Returns when all have the segment finalized: the third may be late."""
        async with JournalInspector(JOURNAL, self.acceptors(), CONFIG, CLIENT) as inspector:

            async def is_there() -> bool:
                return await inspector.lacking(start_txid) == []

            await until_true(is_there)

    # --- by command -------------------------------------------------------------------------------------

    def arguments(self, command: str, *options: str) -> list[str]:
        places = [f"--acceptor={name}={self.uris[name]}" for name in NAMES]
        return ["journal", command, JOURNAL, f"--metadata={self.uris['a']}", *places, *options]

    def run(self, command: str, *options: str) -> tuple[int, list[dict[str, Any]], str]:
        """The exit code, the JSON that was printed, and what was said on stderr."""
        done = bookledger(*self.arguments(command, "--json", *options))
        told = [json.loads(line) for line in done.stdout.decode().splitlines()]
        return done.returncode, told, done.stderr.decode()

    def format(self) -> dict[str, Any]:
        whose = f"--namespace-id={NAMESPACE.namespace_id}", f"--cluster-id={NAMESPACE.cluster_id}"
        code, told, said = self.run("format", *whose)
        assert code == 0, said
        return told[0]

    def sync(self) -> dict[str, Any]:
        code, told, said = self.run("sync", "--ensemble=1")
        assert code == 0, (told, said)
        return told[-1]

    def problems(self) -> list[str]:
        """What fsck finds; its exit code says whether there is anything."""
        code, told, said = self.run("fsck")
        assert not said
        found = [f"{one['where']}: {one['problem']}" for one in told if "problem" in one]
        assert code == bool(found)
        return found


@contextmanager
def three_apart(directory: Path) -> Iterator[Apart]:
    with closing(Apart(directory)) as apart:
        for name in NAMES:
            apart.make_cluster(name)
        yield apart
