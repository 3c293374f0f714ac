"""`python -m tests.qjm_compat.rival`: a writer that takes a journal over again and again, and notes what it was told.

    URI ACCEPTORS NAME NOTES SEED

Each line of the file NOTES is one batch that a flush confirmed (`auditor.Confirmed`). It
ends when its standard input closes, by kill -9 from its own hand, or because something happened that must not.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path

from ledgers import ClientConfig
from qjm_compat import JournalError, JournalOutOfSync, JournalUnavailable, QuorumFailed, StaleEpoch
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.manager.output_stream import EditLogOutputStream

from .auditor import Confirmed, confirmed_batch
from .journals import frames, manager_on

REST_SECONDS = (0.05, 0.8)
"""How long a writer that lost the journal leaves it to the others."""

DIES = 0.2
"""How often a writer's reign ends with kill -9 from its own hand instead."""

REIGN_SECONDS_MAX = 1.5
FLUSHES_MAX = 40
TXNS_MAX = 12
PIPELINED = 0.3

EXPECTED = (StaleEpoch, JournalOutOfSync, JournalUnavailable)
"""What an acceptor may say to a writer that another one is taking the journal from."""


class Rival:
    """One writer and its notes."""

    def __init__(self, name: str, notes: Path, rng: random.Random) -> None:
        self._name = name
        self._notes = open(notes, "a", buffering=1)  # noqa: SIM115 — open until the process ends
        self._rng = rng

    async def reign(self, manager: QuorumJournalManager) -> None:
        """Takes the journal over and writes until somebody takes it away."""
        recovered = await manager.recover_unfinalized_segments()
        next_txid = recovered.end_txid + 1 if recovered is not None else 1
        say("reign", epoch=manager.epoch, from_txid=next_txid)
        if self._rng.random() < DIES:
            asyncio.get_running_loop().call_later(self._rng.uniform(0, REIGN_SECONDS_MAX), kill_myself)
        while True:
            out = await manager.start_log_segment(next_txid)
            for _ in range(self._rng.randint(1, FLUSHES_MAX)):
                await self._flush(out, manager)
            await out.close()
            next_txid = out.next_txid
            await manager.finalize_log_segment(out.first_txid, next_txid - 1)

    async def _flush(self, out: EditLogOutputStream, manager: QuorumJournalManager) -> None:
        """One batch, or several that follow each other without waiting."""
        count = self._rng.randint(2, 10) if self._rng.random() < PIPELINED else 1
        prefix = f"{self._name}/{manager.epoch}"
        sent: list[tuple[asyncio.Future[int], Confirmed]] = []
        for _ in range(count):
            first, txns = out.next_txid, self._rng.randint(1, TXNS_MAX)
            records = frames(first, txns, f"{prefix}/{self._rng.getrandbits(48):x}")
            out.write_raw(records, txns)
            out.set_ready_to_flush()
            batch = confirmed_batch(first, first + txns - 1, records, prefix)
            sent.append((await out.flush_async(), batch))
        for task, batch in sent:
            assert await asyncio.shield(task) == batch.last
            self._notes.write(batch.line)


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def say(what: str, **more: object) -> None:
    print(json.dumps({"said": what, **more}), flush=True)


def expected(error: JournalError) -> bool:
    """Whether all that was said is what a writer may hear when it loses the journal."""
    if isinstance(error, QuorumFailed):
        return all(isinstance(one, EXPECTED) for one in error.errors.values())
    return isinstance(error, EXPECTED)


async def compete(uri: str, acceptors: int, rival: Rival, rng: random.Random) -> None:
    """One reign after the other."""
    while True:
        await asyncio.sleep(rng.uniform(*REST_SECONDS))
        try:
            async with manager_on(uri, acceptors, client_config=ClientConfig()) as manager:
                await rival.reign(manager)
        except JournalError as error:
            if not expected(error):
                raise
            say("lost", why=str(error))


async def until_told(work: asyncio.Task[None]) -> None:
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([work, told], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
    os._exit(0)  # as abruptly as a power cut; what it noted stands


async def main() -> None:
    uri, acceptors, name, notes, seed = sys.argv[1:]
    rng = random.Random(seed)
    rival = Rival(name, Path(notes), rng)
    await until_told(asyncio.create_task(compete(uri, int(acceptors), rival, rng)))


if __name__ == "__main__":
    asyncio.run(main())
