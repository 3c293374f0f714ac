"""A child process that talks in JSON lines, and whose last words are part of its failure."""

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
"""How far back in what a child wrote to stderr its last line is looked for."""


class ChildFailed(OSError):
    """A child process ended, or said something else than expected."""


class Child:
    """A Python program as a child process that talks in JSON lines: ours to it on stdin, its own to us on stdout.

    `arguments` are those of the interpreter. What the child writes to stderr goes to the file `log`, or is
    kept until the child is forgotten. With `dies_with_parent` (`-m MODULE …` only) it is killed when this
    process is gone, also while it is stopped. `environment` comes on top of our own.
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
        """The next line the child says. Raises ChildFailed when it ends instead, with its last words."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._failure()
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    def tell(self, word: str) -> None:
        """Says a line to the child. Raises ChildFailed when it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def expect_success(self) -> None:
        """Waits for the end. Raises ChildFailed unless it is exit code 0."""
        if self.wait() != 0:
            raise self._failure()

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
        """Its exit code; killed when it does not end in time."""
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
        """After its end: keeps its last words, and closes what leads to it."""
        if not self._stderr.closed:
            end = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(self._said_before, end - LAST_WORDS_BYTES_MAX))
            lines = self._stderr.read().decode(errors="replace").split("\n")
            self._last_words = next((line for line in reversed(lines) if line.strip()), "").removeprefix(
                "bookledger: "
            )
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            if file is not None:
                with suppress(BrokenPipeError):  # a word that it did not live to hear
                    file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive:
            self.stop()
        else:
            self.wait()


def _safe_path() -> list[str]:
    """A child does not import a user's own `metadata.py` from where the command is run, if it finds ours elsewhere."""
    return ["-P"] if HOME in map(os.path.realpath, sys.path[1:]) else []


def _with_parent(arguments: Sequence[str]) -> list[str]:
    option, *module_and_arguments = arguments
    assert option == "-m"
    return ["-m", "bookledger.cli.with_parent", str(os.getpid()), *module_and_arguments]


def _appendable(path: Path | None) -> IO[bytes]:
    """The file at `path`, or a nameless one; whoever asks closes it."""
    return tempfile.TemporaryFile() if path is None else open(path, "a+b")
