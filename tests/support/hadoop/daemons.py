"""Stock NameNodes and JournalNodes on loopback, each in a session and a directory of its own.

The directory holds `conf`, `tmp`, the log and what the daemon stores; starting again keeps the ports.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.support.etcd import Ending, free_port
from tests.support.hadoop.configuration import write_configuration
from tests.support.hadoop.jars import java
from tests.support.hadoop.tools import HadoopFailed, run

START_SECONDS_MAX = 60.0
START_TRIES_MAX = 3
POLL_SECONDS = 0.05
ANSWER_SECONDS_MAX = 5.0
LOG_CHARACTERS_MAX = 6000
# Ten tries a second apart, stock Hadoop's way with a peer that is down, would make a test of it take as long.
CONNECT_RETRY_MILLISECONDS = "100"
CLIENT_RETRIES = "100,10"
"""Milliseconds and tries, of calls and again of the connections of each; to a dead NameNode ten seconds in all."""


class Daemon(Ending, ABC):
    """One process. As a context it starts, and stops on leaving; an exception gets the end of the log as a note."""

    program: ClassVar[str]
    stop_seconds_max = 20.0
    java_flags: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        version: str,
        directory: Path,
        ports: tuple[int, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`ports` are those of RPC and HTTP, free ones by default.

        `settings` overrule ours. They count from the next start on; so does `arguments`, what the program is given.
        """
        self.version = version
        self.directory = directory.absolute()
        self.settings = dict(settings or {})
        self.arguments: tuple[str, ...] = ()
        self._ports_stand = ports is not None
        self._log_start = 0
        self.port, self.http_port = ports or (0, 0)

    @property
    def address(self) -> str:
        """Host and port of its RPC, once it has started."""
        return f"127.0.0.1:{self.port}"

    @property
    def configuration(self) -> Path:
        return self.directory / "conf"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self) -> None:
        """Returns when it serves. Raises HadoopFailed, with the end of its log, if it does not come to that."""
        assert self._process is None
        for _ in range(START_TRIES_MAX):
            self._prepare()
            self._spawn()
            if self._wait_until_it_serves():
                self._ports_stand = True
                return
            if self._ports_stand or not self._found_port_taken():
                break
            self.port = self.http_port = 0
        raise HadoopFailed(f"{self.program} did not start:\n{self.last_words()}")

    def await_exit(self, seconds_max: float = START_SECONDS_MAX) -> int:
        """The exit code with which it ends by itself. Raises HadoopFailed if it lives on."""
        process = self._process
        assert process is not None
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired as alive:
            raise HadoopFailed(f"{self.program} runs on:\n{self.last_words()}") from alive
        self._process = None
        return code

    def jmx(self, bean: str) -> dict[str, Any] | None:
        """One of its beans, such as "service=NameNode,name=NameNodeInfo"; None where there is none (yet)."""
        url = f"http://127.0.0.1:{self.http_port}/jmx?qry=Hadoop:{bean}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=ANSWER_SECONDS_MAX) as reply:
                beans: list[dict[str, Any]] = json.load(reply)["beans"]
        except (
            OSError,
            HTTPException,
            ValueError,
        ):  # not yet, or no more: it may break off in an answer, or send nothing
            return None
        return beans[0] if beans else None

    def last_words(self) -> str:
        """The end of its log."""
        return self._said()[-LOG_CHARACTERS_MAX:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None and self.log.exists():
            error.add_note(f"{self.program} of Hadoop {self.version} last said:\n{self.last_words()}")

    @abstractmethod
    def _own_settings(self) -> dict[str, str]: ...

    @abstractmethod
    def _serves(self) -> bool: ...

    def _prepare(self) -> None:
        if self.port == 0:
            self.port, self.http_port = free_port(), free_port()
        common = {
            "hadoop.tmp.dir": str(self.directory / "tmp"),
            "dfs.webhdfs.enabled": "false",
            "ipc.client.connect.retry.interval": CONNECT_RETRY_MILLISECONDS,
        }
        write_configuration(self.configuration, common | self._own_settings() | self.settings)
        (self.directory / "tmp").mkdir(exist_ok=True)

    def _spawn(self) -> None:
        tmp = self.directory / "tmp"
        command = java(
            self.version,
            self.program,
            *self.arguments,
            configuration=self.configuration,
            tmp=tmp,
            flags=self.java_flags,
        )
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp, start_new_session=True
            )

    def _wait_until_it_serves(self) -> bool:
        """Ends it if it does not come to serve, or the waiting is interrupted."""
        serves = False
        try:
            serves = self._await_service()
        finally:
            if not serves:
                self.kill()
        return serves

    def _await_service(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._process.poll() is None and not self._found_port_taken() and time.monotonic() < deadline:
            if self._serves():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _found_port_taken(self) -> bool:
        """A JournalNode of 2.7 says so, and stays."""
        return "Address already in use" in self._said()

    def _said(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


class NameNode(Daemon):
    """One NameNode, alone, that needs no DataNode as long as nobody writes into files.

    Its edits go beside its image, or to `edits_dir`: a folder, or a URI such as qjournal://127.0.0.1:8485/ns1, whose
    JournalNodes must serve before it is formatted. As a context it is formatted first, unless it was.
    """

    program = "org.apache.hadoop.hdfs.server.namenode.NameNode"

    def __init__(
        self,
        version: str,
        directory: Path,
        ports: tuple[int, int] | None = None,
        *,
        edits_dir: Path | str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(version, directory, ports, settings)
        self._name = self.directory / "name"
        edits = self._name if edits_dir is None else edits_dir
        self._edits_uri = edits.absolute().as_uri() if isinstance(edits, Path) else edits

    @property
    def current(self) -> Path:
        """Where its image is, and its edits if they are beside it."""
        return self._name / "current"

    def format(self, cluster_id: str = "CID-tests") -> None:
        """Makes an empty namespace, and formats the journals. Raises HadoopFailed, also where there is one already."""
        self.command("-format", "-nonInteractive", "-clusterId", cluster_id)

    def command(self, *arguments: str, said: str = "") -> str:
        """Runs a command of the NameNode's, which is not running, such as -rollback; `said` is its standard input."""
        self._prepare()
        return run(self.version, self.program, *arguments, configuration=self.configuration, said=said)

    def __enter__(self) -> Self:
        if not (self.current / "VERSION").exists():
            self.format()
        return super().__enter__()

    def _own_settings(self) -> dict[str, str]:
        return {
            "fs.defaultFS": f"hdfs://{self.address}",
            "dfs.namenode.name.dir": self._name.as_uri(),
            "dfs.namenode.edits.dir": self._edits_uri,
            "dfs.namenode.http-address": f"127.0.0.1:{self.http_port}",
            "dfs.namenode.acls.enabled": "true",
            "dfs.namenode.safemode.extension": "0",
            # Between opening its log and taking calls there is a moment in which it asks to be tried again.
            "dfs.client.retry.policy.enabled": "true",
            "dfs.client.retry.policy.spec": CLIENT_RETRIES,
        }

    def _serves(self) -> bool:
        """Its edit log is open and it is not in safe mode. It answers calls earlier, but refuses what they ask."""
        info = self.jmx("service=NameNode,name=NameNodeInfo")
        return info is not None and info["Safemode"] == "" and json.loads(info["NameJournalStatus"]) != []


class JournalNode(Daemon):
    """One JournalNode. It formats a journal when a NameNode that names it is formatted."""

    program = "org.apache.hadoop.hdfs.qjournal.server.JournalNode"

    def current(self, journal_id: str) -> Path:
        """Where the segments of one journal are."""
        return self._edits / journal_id / "current"

    @property
    def _edits(self) -> Path:
        return self.directory / "edits"

    def _own_settings(self) -> dict[str, str]:
        return {
            "dfs.journalnode.edits.dir": str(self._edits),
            "dfs.journalnode.rpc-address": self.address,
            "dfs.journalnode.http-address": f"127.0.0.1:{self.http_port}",
        }

    def _serves(self) -> bool:
        """It counts the calls of its port, which it does once it listens; whoever else listens there is not asked."""
        return self.jmx(f"service=JournalNode,name=RpcActivityForPort{self.port}") is not None
