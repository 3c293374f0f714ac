"""A child process that communicates in JSON lines, and whose last line on stderr explains its failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from ledgers.public import HOME

STOP_SECONDS_MAX = 20.0

LAST_WORDS_BYTES_MAX = 4096
"""Number of bytes at the end of a child's stderr that are searched for the last line."""


class ChildFailed(OSError):
    """A child process ended unexpectedly, or sent something unexpected."""


class Child:
    """A Python program as a child process with pipes: plain lines to its stdin, JSON lines from its stdout.

    `arguments` are passed to the interpreter. The child's stderr goes to the file `log`, or to a temporary file. With
    `dies_with_parent` (`-m MODULE …` only) the child is killed when this process ends, even if the child is stopped.
    `environment` is added to the environment of this process.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        name: str = "",
        log: Path | None = None,
        dies_with_parent: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name or " ".join(arguments[:4])
        self._stderr = _appendable(log)
        self._said_before = self._stderr.seek(0, os.SEEK_END)
        self._last_words = ""
        self._process = subprocess.Popen(
            [sys.executable, *_safe_path(), *(_with_parent(arguments) if dies_with_parent else arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **(environment or {})},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def hear(self) -> dict[str, Any]:
        """Reads the child's next line. Raises ChildFailed with its last stderr line if the child ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._failure()
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    def send(self, word: str) -> None:
        """Sends a line to the child. Raises ChildFailed if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, such as SIGSTOP, SIGCONT or SIGKILL, to the child, using its process id."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the child with SIGKILL, and waits until it has ended."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        """Stops the child with SIGTERM, and returns its exit code; kills it if it does not end in time."""
        if self.is_alive:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        return self.wait()

    def wait(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """Waits for the child to end, and returns its exit code; kills it if it does not end in time."""
        try:
            return self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._let_go()

    def _failure(self) -> ChildFailed:
        exit_code = self.wait()
        return ChildFailed(f"{self._name}: {self._last_words or f'ended with exit code {exit_code}'}")

    def _let_go(self) -> None:
        """Stores the last stderr line of the child, which has ended, and closes the pipes."""
        if not self._stderr.closed:
            end = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(self._said_before, end - LAST_WORDS_BYTES_MAX))
            lines = self._stderr.read().decode(errors="replace").split("\n")
            self._last_words = next((line for line in reversed(lines) if line.strip()), "").removeprefix(
                "bookledger: "
            )
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            if file is not None:
                with suppress(BrokenPipeError):  # the child ended without reading a line that was sent to it
                    file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive:
            self.stop()
        else:
            self.wait()


def _safe_path() -> list[str]:
    """Returns interpreter arguments that keep a child from importing a user's own `metadata.py` from the working
    directory, if this project's packages are found elsewhere on the path."""
    return ["-P"] if HOME in map(os.path.realpath, sys.path[1:]) else []


def _with_parent(arguments: Sequence[str]) -> list[str]:
    option, *module_and_arguments = arguments
    assert option == "-m"
    return ["-m", "bookledger.cli.with_parent", str(os.getpid()), *module_and_arguments]


def _appendable(path: Path | None) -> IO[bytes]:
    """Opens the file at `path`, or an anonymous one; the caller closes it."""
    return tempfile.TemporaryFile() if path is None else open(path, "a+b")
