"""A shell in which the commands of a document run one after the other, as a reader would type them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

PROMPT = "$ "
ANYTHING = "…"
COMMAND_SECONDS_MAX = 120.0
NOT_SHOWN = (" INFO bookledger.life: ", " WARNING bookie.serving.preflight: etcd is version ")
"""Of a daemon's log: a reader of the document has a terminal, and an etcd that is newer than the one of the tests."""

_END = "--- that was it:"


def sessions(text: str) -> list[tuple[str, str]]:
    """Commands, each with what it says, of all console blocks of a document."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in f"\n{block}".split(f"\n{PROMPT}")[1:]]
    return [(command, said.strip()) for command, _, said in (part.partition("\n") for part in parts)]


class Shell:
    """A bash of its own. What is started in the background runs until the shell is left."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._said: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            if not any(part in line for part in NOT_SHOWN):
                self._said.put(line.rstrip("\n"))

    def run(self, command: str, expected: str) -> None:
        """Raises AssertionError where it fails, or says something else. `…` stands for anything."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{_END}%s\\n' $?\n")
        self._bash.stdin.flush()
        lines, code = self._until_end()
        if command.endswith("&"):  # it goes on: what it is expected to say comes when it is ready
            lines += [self._next() for _ in expected.splitlines()]
        said = "\n".join(lines).strip()
        assert code == "0", f"$ {command}\n{said}\nended with exit code {code}"
        assert not expected or _matches(said, expected), f"$ {command}\n{said}\n--- expected:\n{expected}"

    def variable(self, name: str) -> str:
        """The value of a variable of the shell; "" where there is none."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"printf '%s\\n{_END}%s\\n' \"${name}\" $?\n")
        self._bash.stdin.flush()
        lines, _ = self._until_end()
        return lines[-1]

    def _until_end(self) -> tuple[list[str], str]:
        lines: list[str] = []
        while not (line := self._next()).startswith(_END):
            lines.append(line)
        return lines, line.removeprefix(_END)

    def _next(self) -> str:
        try:
            return self._said.get(timeout=COMMAND_SECONDS_MAX)
        except Empty:
            raise AssertionError(f"nothing was said for {COMMAND_SECONDS_MAX:g} s") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what was started in the background, and waits for it."""
        assert self._bash.stdin is not None
        with suppress(BrokenPipeError):
            self._bash.stdin.write("kill $(jobs -p) 2>/dev/null; wait; exit\n")
            self._bash.stdin.close()
        try:
            self._bash.wait(COMMAND_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.wait()
        self._reader.join(COMMAND_SECONDS_MAX)
        assert self._bash.stdout is not None
        self._bash.stdout.close()


def _matches(said: str, expected: str) -> bool:
    """How wide columns are, and whether tabs part them, does not matter."""
    pattern = ".*".join(re.escape(part) for part in _narrow(expected).split(ANYTHING))
    return re.fullmatch(pattern, _narrow(said), re.DOTALL) is not None


def _narrow(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
