"""What commands import: help is there at once, and no daemon carries what only measures, shows off or replays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bookledger.cli.child import Child
from bookledger.cli.processes import BOOKLEDGER, BookieProcess, started
from metadata.sqlite.sqlite_uri import uri_of

TOLD = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Python tells on stderr what it imports."""

TOOLS = re.compile(r"bookledger\.cli\.(bench|demo|spark)\b|(spark|pyspark|pyarrow|pandas|tests)(\.|$)")
SERVERS = re.compile(r"(asyncio|aiohttp|grpc|google\.protobuf|lmdb|numpy|cryptography|sqlite3)(\.|$)")
BOOKIES_STORAGE = re.compile(r"lmdb$|bookie\.(index|log|storage\.bookie|serving\.daemon)(\.|$)")


def imported(log: str) -> set[str]:
    """The modules of Python's report."""
    lines = [line for line in log.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def of_kind(kind: re.Pattern[str], modules: set[str]) -> list[str]:
    return sorted(filter(kind.match, modules))


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcess]:
    directory = tmp_path_factory.mktemp("cluster")
    one = BookieProcess("b1", directory / "b1", uri_of(directory / "metadata.db"), environment=TOLD)
    with started([one]):
        yield one


def imported_by(bookie: BookieProcess, *command: str) -> set[str]:
    """What a daemon has imported when it says that it serves."""
    log = bookie.directory.with_name(f"{command[0]}.log")
    with Child((*BOOKLEDGER, *command, "--json"), environment=TOLD, log=log) as daemon:
        daemon.hear()
    return imported(log.read_text())


@pytest.mark.parametrize("command", [(), ("journal",), ("journal", "serve"), ("bookie", "run")])
def test_help_imports_no_tool(command: tuple[str, ...]) -> None:
    run = [sys.executable, *BOOKLEDGER, *command, "--help"]
    done = subprocess.run(run, env=os.environ | TOLD, capture_output=True, text=True, check=True)
    modules = imported(done.stderr)
    assert "bookledger.cli.main" in modules
    assert of_kind(TOOLS, modules) == []
    if not command:
        assert of_kind(SERVERS, modules) == []


def test_a_bookie_imports_no_tool(bookie: BookieProcess) -> None:
    modules = imported(bookie.log.read_text())
    assert "bookie.serving.daemon" in modules
    assert of_kind(TOOLS, modules) == []


def test_a_journal_node_imports_no_tool_and_nothing_that_stores_entries(bookie: BookieProcess) -> None:
    metadata = uri_of(bookie.directory.with_name("metadata.db"))
    ports = ("--rpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    modules = imported_by(bookie, "journal", "serve", "--metadata", metadata, "--name", "jn1", *ports)
    assert "qjm_compat.hadoop.journal_node_daemon" in modules
    assert of_kind(TOOLS, modules) == []
    assert of_kind(BOOKIES_STORAGE, modules) == []


def test_an_auditor_without_a_bookie_imports_no_tool(bookie: BookieProcess) -> None:
    metadata = uri_of(bookie.directory.with_name("metadata.db"))
    modules = imported_by(bookie, "autorecovery", "--metadata", metadata)
    assert "bookie.upkeep.healing.auditor" in modules
    assert of_kind(TOOLS, modules) == []
