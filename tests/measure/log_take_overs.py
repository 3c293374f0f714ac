"""Three programs that take one log from each other, over a real etcd, while bookies are killed: what was confirmed is
there, once and in order, for a reader that follows and for one that comes late."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, LedgerError
from tests.measure.processes import killing
from tests.support.etcd import EtcdServer

WRITERS = 3
BOOKIES = 4
TAKE_OVERS = 500
QUIET_SECONDS = 20.0
"""A reader has come to the end when nothing is new for so long."""

WRITER = """
import random, sys, time
from bookledger.errors import LedgerError, LogFenced
from ledgers import LedgerClient
uri, name, until = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance, number = random.Random(name), 0
with LedgerClient(uri) as client:
    log = client.log("taken")
    while True:
        try:
            with log.writer(name) as writer:
                print("epoch", writer.epoch, flush=True)
                if writer.epoch >= until:
                    break
                while True:
                    sent = []
                    for _ in range(chance.randint(1, 100)):
                        number += 1
                        sent.append((b"%s-%d" % (name.encode(), number)))
                    futures = [writer.append_async(payload) for payload in sent]
                    for future, payload in zip(futures, sent):
                        print("confirmed", future.result(), payload.decode())
                    sys.stdout.flush()
        except LogFenced as fenced:
            if fenced.epoch >= until:
                break
        except LedgerError as error:
            print("error", type(error).__name__, str(error)[:200], flush=True)
        time.sleep(chance.random() ** 2 * 0.3)
"""


async def measure(scratch: Path, share: float) -> None:
    with EtcdServer(scratch) as etcd:
        await asyncio.to_thread(
            _measure, scratch, f"etcd://{etcd.endpoint}/taken", max(5, round(TAKE_OVERS * share))
        )


def _measure(scratch: Path, uri: str, take_overs: int) -> None:
    with (
        bookie_processes(BOOKIES, scratch, uri, lease_seconds=3) as bookies,
        LedgerClient(uri) as client,
    ):
        client.create_log("taken", roll_records=5000)
        began = time.perf_counter()
        with _follower(client) as followed, killing(bookies) as kills:
            outputs = [scratch / f"writer-{n}" for n in range(WRITERS)]
            writers = [_writer(uri, path, take_overs) for path in outputs]
            codes = [writer.wait() for writer in writers]
        seconds = time.perf_counter() - began
        log = client.log("taken")
        with log.writer("last"):
            pass
        late = [(record.position, record.payload.decode()) for record in log.read()]
        followed.wait_for(len(late))
        errors = _check(outputs, followed.records, late, codes)
        told = {
            "take_overs": log.refresh().epoch,
            "seconds": round(seconds),
            "records": len(late),
            "confirmed": errors.pop("confirmed"),
            "segments": len(list(log.segments())),
            "bookies_killed": kills[0],
            "errors_of_writers": errors,
        }
    print(json.dumps({"what": "take-overs under killed bookies", **told}), flush=True)


def _check(
    outputs: list[Path], followed: list[tuple[int, str]], late: list[tuple[int, str]], codes: list[int]
) -> dict[str, int]:
    """Every confirmed record once, in order, in both. Counts the errors that writers met."""
    assert codes == [0] * len(codes), codes
    assert [position for position, _ in late] == list(range(len(late)))
    assert len({payload for _, payload in late}) == len(late), "a record is there twice"
    assert followed == late, "the two readers differ"
    counts = {"confirmed": 0}
    for path in outputs:
        for line in path.read_text().splitlines():
            match line.split(" ", 2):
                case ["confirmed", position, payload]:
                    assert late[int(position)] == (int(position), payload), f"{line} is not in the log"
                    counts["confirmed"] += 1
                case ["error", kind, _]:
                    counts[kind] = counts.get(kind, 0) + 1
    return counts


def _writer(uri: str, path: Path, take_overs: int) -> subprocess.Popen[bytes]:
    with path.open("wb") as out:
        return subprocess.Popen([sys.executable, "-c", WRITER, uri, path.name, str(take_overs)], stdout=out)


class _Followed:
    def __init__(self) -> None:
        self.records: list[tuple[int, str]] = []
        self.failure: BaseException | None = None
        self._changed = threading.Condition()

    def add(self, record: tuple[int, str]) -> None:
        with self._changed:
            self.records.append(record)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Raises AssertionError where it does not come to so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.records) >= count, QUIET_SECONDS), len(
                self.records
            )


@contextmanager
def _follower(client: LedgerClient) -> Iterator[_Followed]:
    """Follows the log until the process ends; goes on where it was after an error."""
    followed, log = _Followed(), client.log("taken")

    def follow() -> None:
        while True:
            try:
                for record in log.tail(len(followed.records)):
                    followed.add((record.position, record.payload.decode()))
            except LedgerError:
                time.sleep(0.1)

    threading.Thread(target=follow, daemon=True).start()
    yield followed
