"""Loggers in isolation (§7.4.1 of the QJM design): three processes take a journal from each other again and again.

Each writes random directories and notes what a flush confirmed to it; it loses the journal to another one, or dies by
kill -9 and begins again. In the end every transaction has one owner, everything confirmed is in the journal
with the same bytes, and all finalized copies are equal; and a reader that followed from the start saw the same edits.
Acceptors run inside of the writers' processes: a writer that dies takes its acceptors along.
`BOOKLEDGER_SOAK_SECONDS` makes it longer (`make soak-journals`).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
import time
import zlib
from array import array
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bookledger.cli.child import Child, ChildFailed
from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig
from qjm_compat import JournalError
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.edits.ops.namespace import Mkdir
from tests.qjm_compat.auditor import Confirmed, audit, differing_copies, noted
from tests.qjm_compat.journals import NAMESPACE, manager_on
from tests.support.aio import cancel, run, until_true

SECONDS = float(os.environ.get("BOOKLEDGER_SOAK_SECONDS", "8"))
RIVALS = ("ada", "bob", "cyd")
SETTLE_SECONDS_MAX = 120 + SECONDS


@dataclass
class Contest:
    """Three rivals, each begun again whenever it has killed itself, until the time is over."""

    uri: str
    acceptors: int
    scratch: Path
    seed: int
    ends_at: float
    said: list[Counter[str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def run(self) -> None:
        threads = [threading.Thread(target=self._supervise, args=(name,)) for name in RIVALS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def confirmed(self) -> list[Confirmed]:
        return [one for name in RIVALS for one in noted(self.scratch / f"{name}.notes")]

    def _supervise(self, name: str) -> None:
        rng = random.Random(f"{self.seed} {name}")
        counts: Counter[str] = Counter()
        self.said.append(counts)
        while time.monotonic() < self.ends_at and not self.failures:
            arguments = [self.uri, str(self.acceptors), name, str(self.scratch / f"{name}.notes")]
            command = ("-m", "tests.qjm_compat.rival", *arguments, str(rng.getrandbits(32)))
            with Child(command, name=name, log=self.scratch / f"{name}.log", dies_with_parent=True) as child:
                end = threading.Timer(max(self.ends_at - time.monotonic(), 0), child.signal, [signal.SIGKILL])
                end.start()
                self._listen(child, counts)
                end.cancel()

    def _listen(self, child: Child, counts: Counter[str]) -> None:
        try:
            while True:
                counts[str(child.hear()["said"])] += 1
        except ChildFailed as error:
            counts["killed"] += 1
            if child.wait() != -signal.SIGKILL:
                self.failures.append(str(error))


@dataclass
class Follower:
    """Tails the journal from its first edit, and keeps a checksum of each path it saw."""

    uri: str
    acceptors: int
    seen: array[int] = field(default_factory=lambda: array("L"))
    interruptions: list[str] = field(default_factory=list)

    def compare(self, op: Mkdir) -> None:
        assert self.seen[op.txid - 1] == zlib.crc32(op.path.encode()), f"another edit than {op} was seen"

    async def run(self) -> None:
        while True:
            try:
                async with manager_on(self.uri, self.acceptors, client_config=ClientConfig()) as manager:
                    await self._follow(manager)
            except JournalError as error:
                self.interruptions.append(f"{type(error).__name__}: {error}")

    async def _follow(self, manager: QuorumJournalManager) -> None:
        async with aclosing(manager.tail_batches(len(self.seen) + 1)) as batches:
            async for ops in batches:
                for op in ops:
                    assert isinstance(op, Mkdir)
                    assert op.txid == len(self.seen) + 1
                    self.seen.append(zlib.crc32(op.path.encode()))


@pytest.mark.long
@pytest.mark.timeout(300 + 6 * SECONDS)
@pytest.mark.parametrize("acceptors", [1, 3])
def test_soak_journals_rivals_that_take_a_journal_from_each_other_lose_nothing_confirmed(
    tmp_path: Path, acceptors: int
) -> None:
    seed = int(os.environ.get("BOOKLEDGER_SOAK_SEED", time.time_ns()))
    uri = f"sqlite://{tmp_path}/metadata.db"

    async def whole() -> None:
        async with manager_on(uri, acceptors) as manager:
            await manager.format(NAMESPACE)
        contest = Contest(uri, acceptors, tmp_path, seed, time.monotonic() + SECONDS)
        follower = Follower(uri, acceptors)
        following = asyncio.create_task(follower.run())
        await asyncio.to_thread(contest.run)
        assert contest.failures == [], f"seed {seed}"
        async with manager_on(uri, acceptors, client_config=ClientConfig()) as manager:
            last = await manager.recover_unfinalized_segments()
            assert last is not None

            async def caught_up() -> bool:
                return following.done() or len(follower.seen) >= last.end_txid

            await until_true(caught_up, pause_seconds=0.05)
            await cancel(following)
            confirmed = contest.confirmed()
            assert await audit(manager, confirmed, follower.compare) == last.end_txid
            assert await differing_copies(manager) == []
            counts = sum(contest.said, Counter[str]())
            summary = {
                "acceptors": acceptors,
                "seed": seed,
                "epoch": manager.epoch,
                **counts,
                "txids": last.end_txid,
                "batches confirmed": len(confirmed),
                "follower interrupted": len(follower.interruptions),
            }
            print(json.dumps(summary), *Counter(follower.interruptions).most_common(5), sep="\n")
            assert counts["reign"] >= SECONDS / 5, f"seed {seed}: hardly anybody took the journal over"

    with bookie_processes(3, tmp_path, uri):
        run(whole(), timeout_seconds=SECONDS + SETTLE_SECONDS_MAX)
