"""A writer alone, then the same writer while strangers besiege its bookies: what it keeps of its throughput.

    python -m tests.siege.run --seconds 120

The last line is a JSON object. The exit code is 1 where the siege did more harm than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from bookie.wire.trust.identity import Identity
from bookie.wire.trust.roles import Role
from bookledger.cli.bench.clusters import bookies_with_certificates
from bookledger.cli.certs.authority import Authority, make_authority
from bookledger.cli.processes import BookieProcess, bookie_processes, started
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from metadata.records.ledger_record import LedgerRecord
from metadata.sqlite.uri import uri_of

BOOKIES = 3
ENTRY_BYTES = 1000
IN_FLIGHT = 100
QUIET_SHARE = 0.2
"""Of the seconds, for the writer alone."""

NICE = 19
"""Of the strangers: they have processors of their own, and shall not take those of the bookies."""

PATIENT = ClientConfig(append_seconds_max=30)
"""On a machine that does other things too, a bookie may need some seconds for an answer."""

THROUGHPUT_SHARE_MIN = 0.5
P99_FACTOR_MAX = 2.0
MEMORY_MIB_MAX = 512
LARGE_ENTRIES, LARGE_BYTES = 8, 4 * 1024 * 1024 - 4096


@dataclass(frozen=True)
class Written:
    """What a writer with so many in flight had confirmed."""

    appends_per_second: float
    p50_ms: float
    p99_ms: float
    longest_ms: float


class Memory:
    """The most that each bookie had resident."""

    def __init__(self, bookies: list[BookieProcess]) -> None:
        self.most_mib = 0
        self.processes = [psutil.Process(bookie.child.pid) for bookie in bookies]

    async def watch(self) -> None:
        while True:
            for process in self.processes:
                self.most_mib = max(self.most_mib, process.memory_info().rss >> 20)
            await asyncio.sleep(0.2)


async def write(writer: WriteHandle, seconds: float) -> Written:
    """Keeps so many in flight for so long."""
    payload, took, end = bytes(ENTRY_BYTES), list[float](), time.monotonic() + seconds

    async def one_after_the_other() -> None:
        while (began := time.monotonic()) < end:
            await writer.append(payload)
            took.append(time.monotonic() - began)

    await asyncio.gather(*(one_after_the_other() for _ in range(IN_FLIGHT)))
    took.sort()
    at = [round(took[int(len(took) * share)] * 1000, 2) for share in (0.5, 0.99)]
    return Written(round(len(took) / seconds), at[0], at[1], round(took[-1] * 1000, 1))


@contextmanager
def besieged(
    large_ledger: LedgerRecord, bookies: list[BookieProcess], only: str, nice: int, certificates: str
) -> Iterator[dict[str, int]]:
    """Strangers at work inside the block; afterwards, how often each attack was begun."""
    addresses = [f"127.0.0.1:{bookie.port}" for bookie in bookies]
    target = f"{large_ledger.ledger_id}:{large_ledger.identity.hex()}"
    command = [
        sys.executable, "-m", "tests.siege.strangers", str(nice), target, only, certificates, *addresses
    ]  # fmt: skip
    counts: dict[str, int] = {}
    with tempfile.TemporaryFile("w+") as told, subprocess.Popen(command, stdout=told) as strangers:
        try:
            yield counts
            assert strangers.poll() is None, "the strangers have gone"
        finally:
            strangers.kill()
            strangers.wait()
        told.seek(0)
        lines = [line for line in told if line.endswith("\n")]
        assert lines, "the strangers never came"
        counts.update(json.loads(lines[-1]))


async def large(client: LedgerClient) -> LedgerRecord:
    """A ledger whose pages are as large as any."""
    async with await client.create_ledger() as writer:
        for _ in range(LARGE_ENTRIES):
            await writer.append(bytes(LARGE_BYTES))
    return writer.record


@contextmanager
def fortress(scratch: Path, uri: str, *, tls: bool) -> Iterator[tuple[list[BookieProcess], str]]:
    """Three bookies, and the directory of a client's certificate where they speak TLS."""
    if not tls:
        with bookie_processes(BOOKIES, scratch, uri) as bookies:
            yield bookies, ""
        return
    make_authority(scratch / "authority", "siege", days=1)
    authority, client = Authority(scratch / "authority"), scratch / "client"
    authority.issue(client, Identity(Role.CLIENT, "siege"), [], 1)
    guarded = bookies_with_certificates(scratch, uri, authority)
    with started(guarded):
        yield guarded, str(client)


async def play(
    scratch: Path, seconds: float, only: str = "", nice: int = NICE, *, tls: bool = False
) -> dict[str, Any]:
    uri = uri_of(scratch / "metadata.db")
    with fortress(scratch, uri, tls=tls) as (bookies, certificates):
        memory = Memory(bookies)
        watching = asyncio.create_task(memory.watch())
        async with LedgerClient(uri, config=replace(PATIENT, certificates=certificates)) as client:
            large_ledger = await large(client)
            writer = await client.create_ledger()
            await write(writer, 1.0)  # everything is warm
            quiet = await write(writer, seconds * QUIET_SHARE)
            with besieged(large_ledger, bookies, only, nice, certificates) as counts:
                under_siege = await write(writer, seconds * (1 - QUIET_SHARE))
            await writer.close()
            entries = writer.last_add_confirmed + 1
            found = 0
            async for page in (await client.open_ledger(writer.ledger_id)).pages():
                found += len(page)
            fragments = len(writer.record.fragments)
        watching.cancel()
        alive = sum(process.is_running() for process in memory.processes)
    return {
        "quiet": asdict(quiet),
        "besieged": asdict(under_siege),
        "throughput_share": round(under_siege.appends_per_second / quiet.appends_per_second, 2),
        "p99_factor": round(under_siege.p99_ms / quiet.p99_ms, 2),
        "memory_mib_max": memory.most_mib,
        "bookies_alive": alive,
        "entries_confirmed": entries,
        "entries_read": found,
        "fragments": fragments,
        "attacks": counts,
    }


def broken(came: dict[str, Any]) -> list[str]:
    """What the siege did that it may not."""
    wrong = {
        "throughput": came["throughput_share"] < THROUGHPUT_SHARE_MIN,
        "p99": came["p99_factor"] > P99_FACTOR_MAX,
        "memory": came["memory_mib_max"] > MEMORY_MIB_MAX,
        "a bookie has ended": came["bookies_alive"] < BOOKIES,
        "entries": came["entries_read"] != came["entries_confirmed"],
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.siege.run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="", help="attacks by their names, separated by commas")
    parser.add_argument("--tls", action="store_true", help="with certificates; the strangers have a client's")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        came = asyncio.run(play(Path(scratch), arguments.seconds, arguments.only, tls=arguments.tls))
    print(json.dumps(came), flush=True)
    if wrong := broken(came):
        sys.exit(f"the siege did harm: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
