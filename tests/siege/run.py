"""A writer alone, and while strangers besiege its bookies: what an append takes beside each attack on the HTTP ports by
itself, and what it keeps of its throughput beside all attacks on the bookies' own ports, and beside everything.

    python -m tests.siege.run --seconds 120

The last line is a JSON object. The exit code is 1 where the siege did more harm than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ledgers import ClientConfig
from ledgers.aio import LedgerClient

from .attacks import DATA_ATTACKS
from .fortress import BOOKIES, Memory, besieged, fortress, large, many_empty
from .http_attacks import HTTP_ATTACKS
from .http_rounds import rounds, starved
from .writing import Written, write

IN_FLIGHT = 100
QUIET_SHARE = 0.1
"""Of the seconds, for the writer alone."""

HTTP_SHARE = 0.45
"""Of the seconds, for the attacks on the HTTP ports, one after the other."""

AT_ONCE = {"own ports": DATA_ATTACKS, "all ports": DATA_ATTACKS + HTTP_ATTACKS}
"""Which attacks are at work at once; the rest of the seconds is theirs."""

NICE = 19
"""Of the strangers: they have processors of their own, and shall not take those of the bookies."""

PATIENT = ClientConfig(append_seconds_max=30)
"""On a machine that does other things too, a bookie may need some seconds for an answer."""

THROUGHPUT_SHARE_MIN = 0.5
P99_FACTOR_MAX = 2.0
"""Beside the attacks on the bookies' own ports. Beside everything, the processors are what appends wait for most."""

MEMORY_MIB_MAX = 512


async def play(
    scratch: Path, seconds: float, only: str = "", nice: int = NICE, *, tls: bool = False
) -> dict[str, Any]:
    with fortress(scratch, tls=tls) as where:
        memory = Memory(where.bookies)
        watching = asyncio.create_task(memory.watch())
        async with LedgerClient(where.uri, config=replace(PATIENT, certificates=where.of_clients)) as client:
            large_ledger = await large(client)
            await many_empty(where, large_ledger)
            writer = await client.create_ledger()
            await write(writer, 1.0, IN_FLIGHT)  # everything is warm
            http = await rounds(writer, where, large_ledger, seconds * HTTP_SHARE, only, nice)
            quiet = await write(writer, seconds * QUIET_SHARE, IN_FLIGHT)
            each = seconds * (1 - QUIET_SHARE - HTTP_SHARE) / len(AT_ONCE)
            beside, attacks = dict[str, Written](), dict[str, int]()
            for name, names in AT_ONCE.items():
                if chosen := [one for one in names if not only or one in only.split(",")]:
                    async with besieged(where, large_ledger, ",".join(chosen), nice) as counts:
                        beside[name] = await write(writer, each, IN_FLIGHT)
                    attacks |= counts
            await writer.close()
            entries = writer.last_add_confirmed + 1
            found = 0
            async for page in (await client.open_ledger(writer.ledger_id)).pages():
                found += len(page)
            fragments = len(writer.record.fragments)
        watching.cancel()
        alive = sum(process.is_running() for process in memory.processes)
    return {
        "http": http,
        "quiet": asdict(quiet),
        "besieged": {name: _compared(one, quiet) for name, one in beside.items()},
        "memory_mib_max": memory.most_mib,
        "bookies_alive": alive,
        "entries_confirmed": entries,
        "entries_read": found,
        "fragments": fragments,
        "attacks": attacks,
    }


def _compared(one: Written, quiet: Written) -> dict[str, float]:
    share = round(one.appends_per_second / quiet.appends_per_second, 2)
    return {**asdict(one), "throughput_share": share, "p99_factor": round(one.p99_ms / quiet.p99_ms, 2)}


def broken(came: dict[str, Any]) -> list[str]:
    """What the siege did that it may not."""
    slower = [one["throughput_share"] for one in came["besieged"].values()]
    own_ports = came["besieged"].get("own ports", {})
    wrong = {
        "throughput": min(slower) < THROUGHPUT_SHARE_MIN,
        "p99": own_ports.get("p99_factor", 0.0) > P99_FACTOR_MAX,
        "memory": came["memory_mib_max"] > MEMORY_MIB_MAX,
        "a bookie has ended": came["bookies_alive"] < BOOKIES,
        "entries": came["entries_read"] != came["entries_confirmed"],
    }
    beside = [f"appends beside {name}" for name in starved(came["http"])]
    return [name for name, is_wrong in wrong.items() if is_wrong] + beside


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.siege.run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="", help="attacks by their names, separated by commas")
    names = DATA_ATTACKS + HTTP_ATTACKS
    parser.add_argument("--tls", action="store_true", help="with certificates; the strangers have some, too")
    arguments = parser.parse_args()
    if unknown := {one for one in arguments.only.split(",") if one and one not in names}:
        parser.error(f"there is no attack {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    with tempfile.TemporaryDirectory() as scratch:
        came = asyncio.run(play(Path(scratch), arguments.seconds, arguments.only, tls=arguments.tls))
    print(json.dumps(came), flush=True)
    if wrong := broken(came):
        sys.exit(f"the siege did harm: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
