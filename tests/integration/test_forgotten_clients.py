"""A client that is forgotten gives its threads and descriptors back when it is collected, and is warned of."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import pytest

from ledgers import LedgerClient
from tests.support.waiting import until

CLIENTS = 10


def threads() -> int:
    return sum(thread.name == "bookledger-client" for thread in threading.enumerate())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def nothing(_: LedgerClient) -> object:
    return None


def with_an_open_writer(client: LedgerClient) -> object:
    writer = client.create_ledger()
    writer.append(b"a")
    return writer


def with_a_reader_half_way(client: LedgerClient) -> object:
    with client.create_ledger() as writer:
        writer.append_batch([b"a"] * 10)
    entries = iter(client.open_ledger(writer.ledger_id))
    next(entries)
    return entries


@pytest.mark.parametrize("use", [nothing, with_an_open_writer, with_a_reader_half_way])
def test_threads_and_descriptors_come_back(uri: str, use: Callable[[LedgerClient], object]) -> None:
    before, of_others = descriptors(), threads()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(CLIENTS):
            use(LedgerClient(uri))
            gc.collect()
            until(lambda: threads() <= of_others)
    assert descriptors() < before + CLIENTS, "as many loops are kept for later as there were clients at once"
    told = [str(one.message) for one in warned if "never closed" in str(one.message)]
    assert told == ["a LedgerClient was never closed"] * CLIENTS


def test_a_handle_keeps_its_client_alive(uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        writer = LedgerClient(uri).create_ledger()
        gc.collect()
        assert [writer.append(b"%d" % n) for n in range(3)] == [0, 1, 2]
        writer.close()
        del writer
        gc.collect()


def test_a_program_that_ends_with_its_client_open_ends(uri: str) -> None:
    program = f"from bookledger import LedgerClient; c = LedgerClient({uri!r}); print(len(c.list_bookies()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)
