"""Commands to NameNodes through one Java process: one of its own for each command would take a second."""

from __future__ import annotations

import selectors
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.hadoop.jars import HERE, java
from tests.support.hadoop.tools import OUTPUT_CHARACTERS_MAX, TOOL_SECONDS_MAX, Configured, HadoopFailed

SOURCE = HERE / "java" / "Driver.java"


class Driver:
    """Speaks to the NameNodes of one configuration, as it stands when this is entered.

    Every method raises HadoopFailed with what Hadoop said.
    """

    def __init__(self, configured: Configured, directory: Path) -> None:
        self._configured = configured
        self._directory = directory
        self.log = directory / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None

    def active(self, service: str, name: str) -> None:
        """Makes a NameNode of a pair the active one, whatever the other one is."""
        self._ask("active", service, name)

    def standby(self, service: str, name: str) -> None:
        self._ask("standby", service, name)

    def state(self, service: str, name: str) -> str:
        """ "active", "standby" or another of Hadoop's."""
        return self._ask("state", service, name)[0]

    def admin(self, *arguments: str) -> str:
        """`hdfs dfsadmin`: what it printed, in one line."""
        return self._succeed("admin", *arguments)

    def shell(self, *arguments: str) -> None:
        """`hdfs dfs`."""
        self._succeed("shell", *arguments)

    def view(self, file: Path) -> str:
        """What the offline edits viewer says of a segment, as XML."""
        result = self._directory / f"{file.name}.xml"
        self._succeed("view", str(file), str(result))
        return result.read_text(encoding="utf-8")

    def paths(self) -> list[str]:
        """All paths of the namespace, sorted."""
        return self._ask("list")

    def begin_load(self, writers: int) -> None:
        """So many threads make, rename and delete folders, a hundred times a second at most, until `end_load`."""
        self._ask("begin", str(writers))

    def operations(self) -> int:
        """How many of these were acknowledged so far."""
        return int(self._ask("operations")[0])

    def end_load(self) -> list[str]:
        """The paths that must be there, sorted, once the threads are through."""
        return self._ask("end")

    def __enter__(self) -> Self:
        command = java(
            self._configured.version,
            str(SOURCE),
            configuration=self._configured.configuration,
            tmp=self._directory,
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self._directory
            )
        try:
            self._answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if error is not None:
            error.add_note(f"the driver last said:\n{self._last_words()}")

    def _succeed(self, *words: str) -> str:
        code, printed = self._ask(*words)
        if code != "0":
            raise HadoopFailed(f"{' '.join(words)} ended with {code}: {printed}\n{self._last_words()}")
        return printed

    def _ask(self, *words: str) -> list[str]:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> list[str]:
        """Of one command. One that says nothing for a long time is ended."""
        assert self._process is not None and self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            if not waiting.select(TOOL_SECONDS_MAX):
                self._end()
                raise HadoopFailed(
                    f"the driver said nothing for {TOOL_SECONDS_MAX:g} s:\n{self._last_words()}"
                )
        how, *rest = self._process.stdout.readline().decode().rstrip("\n").split("\t")
        if how != "ok":
            raise HadoopFailed(f"{' '.join(rest) or 'the driver ended'}:\n{self._last_words()}")
        return rest

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-OUTPUT_CHARACTERS_MAX:]

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process:
                process.kill()


needs_compiler = pytest.mark.skipif(
    shutil.which("javac") is None,
    reason="no `javac` on PATH: install a JDK 17; the driver is run from its source",
)
