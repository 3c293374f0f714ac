"""Bookies as child processes, for `demo`, `bench` and the tests.

A child serves until its standard input closes, so it ends with its parent, however the parent ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bookie.wire.trust.certificates import ENVIRONMENT
from metadata.settings.environment import variable_of

from .child import Child, ChildFailed

__all__ = [
    "BOOKLEDGER",
    "BookieProcess",
    "Child",
    "ChildFailed",
    "bookie_processes",
    "in_plain_text",
    "started",
]

BOOKLEDGER = ("-m", "bookledger")
"""Arguments that run the command line in a child."""

AUDIT_LOG = "BOOKLEDGER_AUDIT_LOG"
"""Environment variable that names this process's audit log. It is not passed on, because a file shared by two processes
loses lines."""

OPTIONS = f"{variable_of('bookie', 'run')}_"
"""Prefix of the environment variables of the options of `bookledger bookie run`."""

FREE_SPACE_MIN_MIB = 64
"""Free disk space below which these bookies are read-only; low, because they hold little data and must also serve on
nearly full disks."""


class BookieProcess:
    """A real bookie in its own process, which can be killed and restarted on its data.

    `environment` is added to this process's environment for the bookie, from its next start on; `options` are further
    options of `bookledger bookie run`. Certificates named in this process's environment are not passed on.
    """

    program: Sequence[str] = BOOKLEDGER

    def __init__(
        self,
        bookie_id: str,
        directory: Path,
        metadata_uri: str,
        *,
        lease_seconds: float = 10.0,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.bookie_id = bookie_id
        self.directory = directory
        self.environment = environment
        self.metadata_uri = metadata_uri
        self._places = (f"--metadata={metadata_uri}", f"--data={directory}")
        self._lease_seconds = lease_seconds
        self._options = tuple(options)
        self._port = 0
        self._child: Child | None = None

    def format(self) -> None:
        """Formats the directory. Raises an error if that fails."""
        formatting = _format(self.metadata_uri, self.directory, self.bookie_id)
        with ThreadPoolExecutor(1) as beside_any_loop:
            beside_any_loop.submit(asyncio.run, formatting).result()

    def launch(self) -> None:
        """Starts the process; `await_ready` returns when it serves. A restart keeps the port if possible."""
        options = (
            f"--port={self._port if _is_free(self._port) else 0}",
            f"--lease-seconds={self._lease_seconds}",
            f"--free-space-min={FREE_SPACE_MIN_MIB}",
            "--until-stdin-closes",
            *self._options,
        )
        command = (*self.program, "-v", "bookie", "run", "--json", *self._places, *options)
        name = f"bookie {self.bookie_id}"
        self._child = Child(
            command,
            name=name,
            log=self.log,
            environment={ENVIRONMENT: "", AUDIT_LOG: "", **_not_inherited(), **(self.environment or {})},
        )

    def await_ready(self) -> None:
        """Waits until the bookie serves. Raises ChildFailed with the last line of its stderr if it does not."""
        self._port = int(self.child.hear()["address"].rsplit(":", 1)[1])

    def start(self) -> None:
        self.launch()
        self.await_ready()

    @property
    def port(self) -> int:
        """The bookie's port, which is known once the bookie has started for the first time."""
        return self._port

    @property
    def log(self) -> Path:
        """The file that the bookie's log lines are written to."""
        return self.directory.with_name(self.directory.name + ".log")

    @property
    def child(self) -> Child:
        assert self._child is not None, "not started"
        return self._child

    def kill(self) -> None:
        """Kills the bookie with SIGKILL."""
        self.child.kill()

    def stop(self) -> int:
        """Stops the bookie with SIGTERM; returns its exit code."""
        return self.child.stop() if self._child is not None else 0


def _is_free(port: int) -> bool:
    """Returns whether a bookie could listen on the port: while no bookie was listening on it, the kernel may have given
    it to another connection."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _not_inherited() -> dict[str, str]:
    """Returns empty values for all environment variables of this process that set options of a bookie, so that children
    do not inherit them: they are meant for one bookie, and several bookies cannot share a port or a directory."""
    return {name: "" for name in os.environ if name.startswith(OPTIONS)}


async def _format(metadata_uri: str, directory: Path, bookie_id: str) -> None:
    from bookie.serving.directory import format_directory
    from metadata import opened_store

    async with opened_store(metadata_uri, create=True) as store:
        await format_directory(directory, bookie_id, store)


def in_plain_text() -> None:
    """Makes this process ignore its certificates, which are meant for another cluster; for commands that run their own
    bookies on this machine."""
    os.environ.pop(ENVIRONMENT, None)


@contextmanager
def bookie_processes(
    count: int,
    directory: Path,
    metadata_uri: str,
    *,
    prefix: str = "bookie",
    lease_seconds: float = 10.0,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[list[BookieProcess]]:
    """Formats and starts `count` bookies under `directory`; stops the live ones when the block ends."""
    bookies = [
        BookieProcess(
            f"{prefix}-{n}",
            directory / f"{prefix}-{n}",
            metadata_uri,
            lease_seconds=lease_seconds,
            environment=environment,
            options=options,
        )
        for n in range(1, count + 1)
    ]
    with started(bookies):
        yield bookies


@contextmanager
def started(bookies: Sequence[BookieProcess]) -> Iterator[None]:
    """Formats and starts the bookies; stops the live ones when the block ends."""
    try:
        for bookie in bookies:
            bookie.format()
            bookie.launch()
        for bookie in bookies:
            bookie.await_ready()
        yield
    finally:
        for bookie in bookies:
            bookie.stop()
