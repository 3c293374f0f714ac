"""Bookies as child processes, for `demo`, `bench` and the tests.

A child serves until its standard input closes, so it ends with its parent, however that ends.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

STOP_SECONDS_MAX = 20.0
_PR_SET_PDEATHSIG = 1


class ChildFailed(OSError):
    """A child process ended, or said something else than expected."""


class Child:
    """A child process that talks in JSON lines: ours to it on stdin, its own to us on stdout."""

    def __init__(
        self, arguments: Sequence[str], *, log: IO[bytes] | None = None, dies_with_parent: bool = False
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=_die_with_parent if dies_with_parent else None,
        )
        self._name = " ".join(arguments[:4])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def hear(self) -> dict[str, Any]:
        """The next line the child says. Raises ChildFailed when it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ChildFailed(f"{self._name} ended with exit code {self.wait()}")
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT, SIGKILL, … to this child, by its id."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit code; killed when it does not end in time."""
        if self.is_alive:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        return self.wait()

    def wait(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        try:
            return self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive:
            self.stop()
        else:
            self.wait()


def _die_with_parent() -> None:
    """Runs in the child: SIGKILL when the parent is gone, which reaches a stopped process too."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class BookieProcess:
    """A real bookie in a process of its own, which can be killed and started again on its data."""

    def __init__(
        self, bookie_id: str, directory: Path, metadata_uri: str, *, lease_seconds: float = 10.0
    ) -> None:
        self.bookie_id = bookie_id
        self.directory = directory
        self._uri = metadata_uri
        self._lease_seconds = lease_seconds
        self._port = 0
        self._child: Child | None = None

    def format(self) -> None:
        with Child(
            [
                *_BOOKLEDGER,
                "bookie",
                "format",
                "--json",
                f"--metadata={self._uri}",
                f"--data={self.directory}",
                f"--id={self.bookie_id}",
            ]
        ) as child:
            child.hear()
            if (code := child.wait()) != 0:
                raise ChildFailed(f"formatting {self.directory} ended with exit code {code}")

    def launch(self) -> None:
        """Starts the process; `await_ready` returns when it serves. Restarts keep the port."""
        with open(self.log, "ab") as log:
            self._child = Child(
                [
                    *_BOOKLEDGER,
                    "-v",
                    "bookie",
                    "run",
                    "--json",
                    f"--metadata={self._uri}",
                    f"--data={self.directory}",
                    f"--port={self._port}",
                    f"--lease-seconds={self._lease_seconds}",
                    "--until-stdin-closes",
                ],
                log=log,
            )

    def await_ready(self) -> None:
        """Raises ChildFailed, with the bookie's last words, when it does not come up."""
        try:
            self._port = int(self.child.hear()["address"].rsplit(":", 1)[1])
        except ChildFailed as error:
            words = self.log.read_text().strip().splitlines()[-1:]
            raise ChildFailed(f"bookie {self.bookie_id}: {' '.join(words) or error}") from error

    def start(self) -> None:
        self.launch()
        self.await_ready()

    @property
    def log(self) -> Path:
        """Where its log lines go."""
        return self.directory.with_name(self.directory.name + ".log")

    @property
    def child(self) -> Child:
        assert self._child is not None, "not started"
        return self._child

    def kill(self) -> None:
        """kill -9."""
        self.child.kill()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self.child.stop() if self._child is not None else 0


_BOOKLEDGER = ("-m", "ledgers.cli")


@contextmanager
def bookie_processes(
    count: int, directory: Path, metadata_uri: str, *, prefix: str = "bookie", lease_seconds: float = 10.0
) -> Iterator[list[BookieProcess]]:
    """Formats and starts `count` bookies under `directory`; stops those that live when the block ends."""
    bookies = [
        BookieProcess(f"{prefix}-{n}", directory / f"{prefix}-{n}", metadata_uri, lease_seconds=lease_seconds)
        for n in range(1, count + 1)
    ]
    try:
        for bookie in bookies:
            bookie.format()
            bookie.launch()
        for bookie in bookies:
            bookie.await_ready()
        yield bookies
    finally:
        for bookie in bookies:
            bookie.stop()
