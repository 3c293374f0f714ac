"""A program that has a client open while it makes child processes in every way Python knows.

    python -m tests.support.forking inherited URI          what each call says in a forked child, and how fast
    python -m tests.support.forking busy URI               the same while other threads of the parent append
    python -m tests.support.forking asyncio URI            the same for the asyncio client, forked inside of its loop
    python -m tests.support.forking own URI                forked children make clients, and children, of their own
    python -m tests.support.forking pool URI METHOD        multiprocessing.Pool

It prints what happened, a line of JSON for each process. Whoever is forked ends as an ordinary program does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bookledger import LedgerClient, NamespaceInfo, QuorumJournalManager
from bookledger.errors import LedgerError
from ledgers.aio import LedgerClient as AsyncLedgerClient

Call = Callable[[], Any]

FORKS = 3

NAMESPACE = NamespaceInfo(namespace_id=7, cluster_id="c", block_pool_id="bp", c_time=1, layout_version=-63)


def write_and_read(uri: str, name: str) -> list[str]:
    """What a child with a client of its own does."""
    with LedgerClient(uri) as client:
        with client.create_ledger(ensemble_size=3) as writer:
            for n in range(20):
                writer.append_async(f"{name} {n}".encode())
        return [entry.payload.decode() for entry in client.open_ledger(writer.ledger_id).read()]


def expected(name: str) -> list[str]:
    return [f"{name} {n}" for n in range(20)]


def said_by(call: Call) -> str:
    """The class of the error, or what it returned; `late` behind it where that took over a second."""
    began = time.monotonic()
    try:
        said = repr(call())
    except (LedgerError, Exception) as error:
        said = type(error).__name__
    return said if time.monotonic() - began < 1 else f"{said} late"


def in_fork(work: Call, end: Callable[[int], object] = sys.exit) -> int:
    """Runs it in a forked child that ends with its result as a line; returns the child's exit status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        print(json.dumps(work()), flush=True)
        end(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def inherited(uri: str) -> None:
    with LedgerClient(uri) as client, QuorumJournalManager(uri, f"journal-{os.getpid()}") as manager:
        manager.format(NAMESPACE)
        manager.recover_unfinalized_segments()
        stream = manager.start_log_segment(1)
        writer, advanced = client.create_ledger(), client.create_ledger_adv()
        writer.append(b"before the fork")
        reader = client.open_ledger(writer.ledger_id, recovery=False)
        calls: dict[str, Call] = {
            "create_ledger": client.create_ledger,
            "create_ledger_adv": client.create_ledger_adv,
            "claim_ledger": partial(client.claim_ledger, 0),
            "open_ledger": partial(client.open_ledger, 0),
            "list_ledgers": lambda: list(client.list_ledgers()),
            "describe_ledger": partial(client.describe_ledger, 0),
            "delete_ledger": partial(client.delete_ledger, 0),
            "list_bookies": client.list_bookies,
            "append": partial(writer.append, b"x"),
            "append_async": partial(writer.append_async, b"x"),
            "flush": writer.flush,
            "force": writer.force,
            "close": writer.close,
            "advanced append": partial(advanced.append, 0, b"x"),
            "advanced append_async": partial(advanced.append_async, 0, b"x"),
            "advanced flush": advanced.flush,
            "advanced close": advanced.close,
            "read": lambda: list(reader.read()),
            "read_entry": partial(reader.read_entry, 0),
            "read_batch": partial(reader.read_batch, 0, entries_max=1, bytes_max=1),
            "read_unconfirmed": lambda: list(reader.read_unconfirmed(0, 0)),
            "tail": lambda: next(reader.tail()),
            "try_read_last_add_confirmed": reader.try_read_last_add_confirmed,
            "read_last_add_confirmed": reader.read_last_add_confirmed,
            "is_formatted": manager.is_formatted,
            "stream flush": stream.flush,
            "client close": client.close,
            "manager close": manager.close,
        }
        status = in_fork(lambda: {name: said_by(call) for name, call in calls.items()})
        writer.append(b"after the fork")
        advanced.close()
        writer.close()
        payloads = [entry.payload.decode() for entry in client.open_ledger(writer.ledger_id).read()]
    print(json.dumps({"status": status, "payloads": payloads}))


def busy(uri: str) -> None:
    """Forks again and again while two threads append: whatever lock is taken just then stays taken in the child."""
    with LedgerClient(uri) as client:
        writer = client.create_ledger()
        is_over = threading.Event()

        def append() -> None:
            while not is_over.is_set():
                writer.append_async(bytes(100))

        threads = [threading.Thread(target=append) for _ in range(2)]
        for thread in threads:
            thread.start()
        statuses = [
            in_fork(lambda: [said_by(partial(writer.append_async, b"x")), said_by(client.create_ledger)])
            for _ in range(FORKS)
        ]
        is_over.set()
        for thread in threads:
            thread.join()
        writer.close()
    print(json.dumps({"statuses": statuses}))


async def in_loop(uri: str) -> None:
    """The child ends without a way back into the parent's loop, as multiprocessing's children do."""
    client = AsyncLedgerClient(uri)
    writer = await client.create_ledger()
    await writer.append(b"before the fork")
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "create_ledger": client.create_ledger,
        "append": partial(writer.append, b"x"),
        "append_async": partial(writer.append_async, b"x"),
        "flush": writer.flush,
        "close": writer.close,
        "abandon": writer.abandon,
        "read_entry": partial(reader.read_entry, 0),
        "tail": lambda: anext(reader.tail()),
        "client close": client.close,
    }

    async def awaited(call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()

    def in_child() -> dict[str, str]:
        said = {name: said_by(partial(asyncio.run, awaited(call))) for name, call in calls.items()}
        nonlocal client, writer, reader
        client, writer, reader = None, None, None  # type: ignore[assignment]
        calls.clear()
        gc.collect()
        said["own client"] = said_by(partial(write_and_read, uri, "child"))
        return said

    status = in_fork(in_child, end=os._exit)
    await writer.append(b"after the fork")
    await writer.close()
    await client.close()
    print(json.dumps({"status": status, "last": writer.last_add_confirmed}))


def own(uri: str) -> None:
    """The child forgets the parent's clients for its own, as a pool's initializer does with a global."""
    client, closed = LedgerClient(uri), LedgerClient(uri)
    closed.close()
    writer = client.create_ledger()

    def in_child() -> list[bool]:
        nonlocal client, writer
        client = LedgerClient(uri)
        writer = client.create_ledger()
        gc.collect()
        writer.close()
        grandchild = in_fork(lambda: write_and_read(uri, "grandchild") == expected("grandchild"))
        client.close()
        return [write_and_read(uri, "child") == expected("child"), grandchild == 0]

    writer.append(b"before the fork")
    status = in_fork(in_child)
    writer.append(b"after the fork")
    writer.close()
    good = write_and_read(uri, "parent") == expected("parent")
    client.close()
    print(json.dumps({"status": status, "good": good, "last": writer.last_add_confirmed}))


def pool(uri: str, method: str) -> None:
    with LedgerClient(uri) as client:
        writer = client.create_ledger()
        writer.append(b"before")
        with multiprocessing.get_context(method).Pool(2) as workers:
            names = [f"worker {n}" for n in range(4)]
            results = workers.map(partial(write_and_read, uri), names)
            good = [result == expected(name) for name, result in zip(names, results, strict=True)]
        writer.append(b"after")
        writer.close()
    print(json.dumps({"good": good, "last": writer.last_add_confirmed}))


def main(what: str, uri: str, method: str = "spawn") -> None:
    match what:
        case "inherited":
            inherited(uri)
        case "busy":
            busy(uri)
        case "own":
            own(uri)
        case "asyncio":
            asyncio.run(in_loop(uri))
        case "pool":
            pool(uri, method)


if __name__ == "__main__":
    main(*sys.argv[1:])
