"""A store in SQLite, and a process forked while it is open: neither takes the file from under the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.interpreter import WARNS_NOT_OF_FORKS

PROGRAM = """
import asyncio, os, sys
from metadata.sqlite.store import SqliteStore

def in_child(path, go, done):
    store = SqliteStore(path, create=False)
    async def write():
        await store.create("child/1", b"")
        os.write(done, b"1")
        os.read(go, 1)  # the parent has closed its store
        await store.create("child/2", b"")
    asyncio.run(write())
    os._exit(0)

async def main(path):
    store = SqliteStore(path)
    await store.create("parent/1", b"")
    (go_in, go_out), (done_in, done_out) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        in_child(path, go_in, done_out)
    os.read(done_in, 1)
    await store.close()
    print(os.path.exists(path + "-wal"))
    os.write(go_out, b"1")
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    again = SqliteStore(path)
    print([item.key for item in (await again.list_page("")).items])
    await again.close()

asyncio.run(main(sys.argv[1]))
"""

BUSY = """
import asyncio, os, sys, threading
from metadata.sqlite.store import SqliteStore

async def write(store, name, is_over):
    n = 0
    while not is_over():
        await store.create(f"{name}/{n:06}", b"")
        n += 1
    return n

def in_child(path, number):
    async def own():
        store = SqliteStore(path, create=False)
        left = iter(range(20))
        await write(store, f"child-{number}", lambda: next(left, None) is None)
        await store.close()
    try:
        asyncio.run(own())
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)

async def main(path):
    store = SqliteStore(path)
    await store.open()
    forked = asyncio.Event()
    writing = asyncio.create_task(write(store, "parent", forked.is_set))
    statuses = []
    for number in range(10):
        pid = os.fork()
        if pid == 0:
            in_child(path, number)
        status = await asyncio.to_thread(os.waitpid, pid, 0)
        statuses.append(os.waitstatus_to_exitcode(status[1]))
    forked.set()
    written = await writing
    keys = 0
    after = None
    while True:
        page = await store.list_page("", after=after)
        keys += len(page.items)
        if page.next_after is None:
            break
        after = page.next_after
    print(statuses, keys - written)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


def printed(program: str, tmp_path: Path) -> list[str]:
    command = [sys.executable, *WARNS_NOT_OF_FORKS, "-P", "-c", program, str(tmp_path / "metadata.db")]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_parent_that_closes_leaves_the_log_to_a_child_that_still_writes(tmp_path: Path) -> None:
    is_log_there, status, keys = printed(PROGRAM, tmp_path)
    assert is_log_there == "True", "the parent took itself for the last one on the file"
    assert status == "0"
    assert keys == "['child/1', 'child/2', 'parent/1']"


def test_children_forked_in_the_middle_of_transactions_write_and_lose_nothing(tmp_path: Path) -> None:
    assert printed(BUSY, tmp_path) == [f"{[0] * 10} {10 * 20}"]
