"""A run: clients and faults for so long, then calm; in the end everything confirmed is there, in all its copies.

    python -m tests.chaos.run --seconds 300 [--seed 4711]

The last line is a JSON object. The seed repeats what is drawn, not what the machine makes of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from bookledger.cli.processes import BookieProcess
from bookledger.cluster import health
from bookledger.cluster.survey import Survey, survey
from ledgers.aio import LedgerClient
from metadata import opened_store
from metadata.errors import MetadataError
from tests.support.etcd_cluster import EtcdCluster
from tests.support.etcd_program import find_etcd, version_of, why_not_sound

from .clients import take_over_for_ever, tidy_for_ever, write_for_ever
from .faults import Faults
from .history import Broken, History
from .hosts import Host, hosts, proxied

BOOKIES = 5
WRITERS = 3
READERS = 2
LOST_AFTER_SECONDS = 20
COLLECT_SECONDS = 20
WHOLE_SECONDS_MAX = 240.0


async def look(uri: str) -> Survey | None:
    async with opened_store(uri) as store:
        return await survey(store, wait_ms=LOST_AFTER_SECONDS * 1000)


async def is_whole(uri: str) -> bool:
    """And nobody thinks otherwise."""
    try:
        seen = await look(uri)
    except MetadataError:
        return False
    return seen is not None and health.is_whole(seen) and not seen.marks


async def may_lose_a_disk(uri: str) -> bool:
    """Whether every ledger has all its copies."""
    try:
        seen = await look(uri)
    except MetadataError:
        return False
    return seen is not None and not seen.bad_copies_by_ledger


async def play(
    uri: str, made: list[Host], etcd: EtcdCluster | None, seconds: float, seed: int
) -> dict[str, Any]:
    """What came of it. Raises Broken."""
    async with proxied(made):
        return await _play(uri, made, etcd, seconds, seed)


async def _play(
    uri: str, made: list[Host], etcd: EtcdCluster | None, seconds: float, seed: int
) -> dict[str, Any]:
    history, random = History(), Random(seed)
    faults = Faults(uri, made, etcd, history, random, lambda: may_lose_a_disk(uri))
    clients = [write_for_ever(uri, history, Random(random.random())) for _ in range(WRITERS)]
    clients.append(tidy_for_ever(uri, history))
    clients += [take_over_for_ever(uri, history, Random(random.random())) for _ in range(READERS)]
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(faults.go_on_for_ever())
            for client in clients:
                group.create_task(client)
    except TimeoutError:
        pass  # the time is up
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    await faults.come_to_an_end()
    return await _calm(uri, [one.bookie for one in made], history, seed)


async def _calm(uri: str, bookies: list[BookieProcess], history: History, seed: int) -> dict[str, Any]:
    for bookie in bookies:
        await asyncio.to_thread(_runs_again, bookie)
    await _check_not_held_back(uri)
    records, missing = [], 0
    async with LedgerClient(uri) as client:
        for ledger_id in sorted(history.confirmed):
            await history.read_all(client, ledger_id)
        began = time.monotonic()
        while not await is_whole(uri):
            await _check_not_held_back(uri)
            if time.monotonic() - began > WHOLE_SECONDS_MAX:
                raise Broken(f"not whole {WHOLE_SECONDS_MAX:g} s after calm: {_why_not(await look(uri))}")
            await asyncio.sleep(1)
        whole_after = time.monotonic() - began
        for ledger_id in sorted(history.confirmed):
            records.append(await history.read_all(client, ledger_id))
            missing += await history.copies_missing(client, records[-1])
    if history.broken:
        raise Broken("; ".join(history.broken[:5]))
    if not history.entries_confirmed:
        raise Broken("nothing was ever confirmed")
    if missing:
        raise Broken(f"{missing} copies are missing in the end")
    return {
        "seed": seed,
        "ledgers": len(records),
        "ledgers_deleted": len(history.deleted),
        "fragments": sum(len(record.fragments) for record in records),
        "entries_confirmed": history.entries_confirmed,
        "entries_read": history.entries_read,
        "faults": dict(history.faults),
        "errors": dict(history.errors),
        "whole_after_seconds": round(whole_after, 1),
        "copies_missing": missing,
    }


async def _check_not_held_back(uri: str) -> None:
    """Nothing is restored here: whoever noticed that the metadata went back was wrong, or etcd has lost writes."""
    try:
        seen = await look(uri)
    except MetadataError:
        return
    if seen is not None and seen.hold is not None:
        raise Broken(f"the cluster holds back: {seen.hold.noticed}")


def _runs_again(bookie: BookieProcess) -> None:
    """Whatever state the faults have left it in."""
    bookie.kill()
    bookie.start()


def _why_not(seen: Survey | None) -> str:
    if seen is None:
        return "there is no cluster"
    marks = [f"{mark.ledger_id}: {mark.reasons} {mark.why_not}" for mark in seen.marks[:5]]
    why = "; ".join(health.why_not_whole(health.of_survey(seen)))
    return f"{why}; {dict(seen.fragments)}, left behind {seen.left_behind}, marks {marks}"


def run(seconds: float, seed: int, directory: Path, *, with_etcd: bool = True) -> dict[str, Any]:
    """One run in this directory."""
    etcd = EtcdCluster(directory) if with_etcd else None
    try:
        if etcd is not None:
            etcd.start()
        uri = etcd.uri if etcd else f"sqlite://{directory}/metadata.db"
        options = (f"--lost-after={LOST_AFTER_SECONDS}", f"--collect-every={COLLECT_SECONDS}")
        with hosts(BOOKIES, directory, uri, options) as made:
            return _judged(etcd, lambda: asyncio.run(play(uri, made, etcd, seconds, seed)))
    finally:
        if etcd is not None:
            etcd.stop()


def _judged(etcd: EtcdCluster | None, played: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What came of it. Raises Broken, which says whether etcd itself has lost writes."""
    try:
        found = played()
    except Broken as broken:
        differ = "" if etcd is None else f"; {etcd.why_they_differ() or 'the members of etcd agree'}"
        raise Broken(f"{broken}{differ}") from broken
    if etcd is not None and (differ := etcd.why_they_differ()):
        raise Broken(differ)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    if why := why_not_sound():
        print(f"!!! {why}", flush=True)
        os.environ["BOOKLEDGER_ACCEPT_UNSAFE_ETCD"] = "1"
    etcd = version_of(find_etcd())
    print(f"== chaos: seed {seed}, {given.seconds:g} seconds, three members of etcd {etcd}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(run(given.seconds, seed, Path(directory))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
