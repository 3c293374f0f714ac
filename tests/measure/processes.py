"""Real bookies: how much memory one has to itself, and one after the other killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bookledger.cli.processes import BookieProcess

SEED = 4711
KILL_SECONDS = 2.0


def private_mib(bookie: BookieProcess) -> int:
    """MiB that the process shares with nobody; the index is mapped, and its pages are the page cache's."""
    return private_mib_of(bookie.child.pid)


def private_mib_of(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    return (sizes["Private_Clean"] + sizes["Private_Dirty"]) >> 10


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def log_bytes(bookie: BookieProcess) -> int:
    return sum(segment.stat().st_size for segment in (bookie.directory / "log").iterdir())


@contextmanager
def killing(bookies: list[BookieProcess]) -> Iterator[list[int]]:
    """One after the other is killed, and started again; counts how many were."""
    over, chance, count = threading.Event(), random.Random(SEED), [0]

    def kill() -> None:
        while not over.wait(KILL_SECONDS * chance.random()):
            one = chance.choice(bookies)
            one.kill()
            over.wait(KILL_SECONDS * chance.random())
            one.start()
            count[0] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()
