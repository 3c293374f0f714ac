"""A client, and processes that are forked from its own: it works where it was made, and others make their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bookledger.cli.processes import bookie_processes
from tests.support.etcd import EtcdServer
from tests.support.forking import FORKS
from tests.support.interpreter import WARNS_NOT_OF_FORKS
from tests.support.long_runs import first_then_long

METHODS = ("fork", "forkserver", "spawn")

SECONDS_MAX = 120


@pytest.fixture(scope="module", params=["sqlite", "etcd"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three bookies, for all tests of a metadata store."""
    path = tmp_path_factory.mktemp("forks")
    if request.param == "sqlite":
        metadata_uri = f"sqlite://{path}/metadata.db"
    else:
        server: EtcdServer = request.getfixturevalue("etcd")
        metadata_uri = f"etcd://{server.endpoint}/forks"
    with bookie_processes(3, path, metadata_uri):
        yield metadata_uri


def lines_of(*arguments: str) -> list[Any]:
    """What each process of the program printed. It ends well, and nobody complains on stderr."""
    program = [sys.executable, *WARNS_NOT_OF_FORKS, "-P", "-m", "tests.support.forking", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_call_in_a_forked_child_fails_at_once_and_the_parent_goes_on(uri: str) -> None:
    child, parent = lines_of("inherited", uri)
    closed = {name: child.pop(name) for name in ("client close", "manager close")}
    assert closed == dict.fromkeys(closed, "None"), "leaving a `with` block of the parent's is no error"
    assert child == dict.fromkeys(child, "ClientForked")
    assert parent == {"status": 0, "payloads": ["before the fork", "after the fork"]}


PENDING_AT_THE_FORK = """
import os, sys
from ledgers import ClientForked, LedgerClient
with LedgerClient(sys.argv[1]) as client, client.create_ledger() as writer:
    done = writer.append_async(b"done")
    done.result()
    futures = [writer.append_async(bytes(100_000)) for _ in range(50)]
    if os.fork() == 0:
        said = set()
        for future in futures:
            try: said.add(type(future.result()).__name__)
            except ClientForked: said.add("ClientForked")
        os._exit(0 if "ClientForked" in said and done.result() == 0 else 1)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    sys.exit(status or [f.result() for f in futures] != list(range(1, 51)))
"""


def test_the_future_of_an_append_that_was_not_done_at_the_fork_says_so_in_the_child(uri: str) -> None:
    program = [sys.executable, *WARNS_NOT_OF_FORKS, "-P", "-c", PENDING_AT_THE_FORK, uri]
    done = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_lock_that_a_thread_of_the_parent_held_is_waited_for_in_the_child(uri: str) -> None:
    *children, parent = lines_of("busy", uri)
    assert children == [["ClientForked", "ClientForked"]] * FORKS
    assert parent == {"statuses": [0] * FORKS}


def test_the_asyncio_client_of_a_parent_fails_in_the_child_and_a_new_one_works_there(uri: str) -> None:
    child, parent = lines_of("asyncio", uri)
    assert child.pop("client close") == "None"
    assert json.dumps([f"child {n}" for n in range(20)]).replace('"', "'") == child.pop("own client")
    assert child == dict.fromkeys(child, "ClientForked")
    assert parent == {"status": 0, "last": 1}


def test_a_client_made_in_a_forked_child_works_while_the_parent_has_one_open(uri: str) -> None:
    grandchild, child, parent = lines_of("own", uri)
    assert grandchild is True
    assert child == [True, True]
    assert parent == {"status": 0, "good": True, "last": 1}


@pytest.mark.parametrize("method", first_then_long(METHODS))
def test_workers_of_a_pool_write_and_read_while_the_parent_has_a_client_open(uri: str, method: str) -> None:
    (parent,) = lines_of("pool", uri, method)
    assert parent == {"good": [True] * 4, "last": 1}
