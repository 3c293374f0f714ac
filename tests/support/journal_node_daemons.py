"""JournalNodes as NameNodes and our own client meet them: `bookledger journal serve`, and bookies that are one, too."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bookledger.cli.processes import BookieProcess
from metadata.settings.environment import variable_of
from tests.support.http import get
from tests.support.preloaded import Forked

STOP_SECONDS_MAX = 20.0
ONE_COPY = {variable_of("journal", name): "1" for name in ("ensemble_size", "write_quorum", "ack_quorum")}


class JournalNodeDaemon:
    """One daemon. As a context it starts, and stops in order; starting again keeps the ports."""

    def __init__(self, metadata_uri: str, name: str, directory: Path, *options: str) -> None:
        self.name = name
        self.address = self.http_address = "127.0.0.1:0"
        self._metadata_uri = metadata_uri
        self._options = options
        self.log = directory / f"{name}.log"
        self._process: Forked | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Returns when it serves. Fails with what it said else."""
        assert self._process is None
        command = ["journal", "serve", "--metadata", self._metadata_uri, "--name", self.name, "--json"]
        command += [f"--rpc={self.address}", f"--http={self.http_address}", "--lease-seconds=1"]
        command += self._options
        with self.log.open("ab") as log:
            self._process = Forked(command, log, os.environ)
        line = self._process.stdout.readline()
        assert line, f"{self.name} did not start: {self.log.read_text()}"
        told = json.loads(line)
        self.address, self.http_address = told["rpc"], told["http"]

    def kill(self) -> None:
        """As a power cut would, if it runs."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """It stands still, as a machine that swaps or is suspended."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def await_exit(self) -> int:
        """The code with which it ends by itself."""
        process, self._process = self._process, None
        assert process is not None
        try:
            return process.wait(STOP_SECONDS_MAX)
        finally:
            process.kill()
            process.stdin.close()
            process.stdout.close()

    def stop(self) -> int:
        """In order; returns its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(how)
        return self.await_exit()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            error.add_note(f"{self.name} said:\n{self.log.read_text()[-4000:]}")


class BookieWithNode(BookieProcess):
    """A bookie that is a JournalNode, too, at the same addresses after a restart; its edits are on its own disk."""

    rpc = http = "127.0.0.1:0"
    name = ""

    def launch(self) -> None:
        places = {"journal-node": self.rpc, "journal-http": self.http}
        variables = {variable_of("bookie", "run", option): text for option, text in places.items()}
        self.environment = {**(self.environment or {}), **variables, **ONE_COPY}
        super().launch()

    def await_ready(self) -> None:
        told = self.child.hear()
        self._port = int(told["address"].rsplit(":", 1)[1])
        node = told["journal_node"]
        self.name, self.rpc, self.http = node["name"], node["rpc"], node["http"]

    @property
    def serves(self) -> bool:
        """Whether its JournalNode has its name, and answers."""
        try:
            return get(f"http://{self.http}/readyz") == (200, "ok\n")
        except OSError:
            return False


@contextmanager
def journal_nodes(
    metadata_uri: str, directory: Path, count: int = 3, *options: str
) -> Iterator[list[JournalNodeDaemon]]:
    """So many, named jn1, jn2, …"""
    with ExitStack() as stack:
        yield [
            stack.enter_context(JournalNodeDaemon(metadata_uri, f"jn{n}", directory, *options))
            for n in range(1, count + 1)
        ]


def qjournal(addresses: list[str], journal_id: str = "ns1") -> str:
    """What a NameNode is configured with."""
    return f"qjournal://{';'.join(addresses)}/{journal_id}"
