"""Append latency beside each attack on the HTTP port by itself, and without any before each."""

from __future__ import annotations

import statistics
import sys
from typing import Any

from ledgers.aio import WriteHandle
from metadata.records.ledger_record import LedgerRecord

from .fortress import Fortress, besieged
from .http_attacks import HTTP_ATTACKS
from .writing import Written, write

IN_FLIGHT = 4
"""So few that an append hardly waits for others."""

QUIET_SHARE = 0.3
"""Of a round's seconds, without the attack."""

P50_FACTOR_MAX = 5.0
P99_FACTOR_MAX = 30.0
"""What an attack may do to the median and to the p99 of the quiet seconds of all rounds. Without a bound of the event
loop's share, floods and large pages make these 15 to 70, and 80 to 150. With it a page that is made on the loop, or a
hundred connections that come at once, make a p99 of two milliseconds some ten times that.
"""


async def rounds(
    writer: WriteHandle, where: Fortress, large: LedgerRecord, seconds: float, only: str, nice: int
) -> dict[str, Any]:
    """So many seconds all together; prints a line for each attack, and returns the factors of each."""
    attacks = [name for name in HTTP_ATTACKS if not only or name in only.split(",")]
    if not attacks:
        return {"attacks": {}}
    each = seconds / len(attacks)
    quiet, beside = list[Written](), dict[str, Written]()
    for name in attacks:
        quiet.append(await write(writer, each * QUIET_SHARE, IN_FLIGHT))
        async with besieged(where, large, name, nice):
            beside[name] = await write(writer, each * (1 - QUIET_SHARE), IN_FLIGHT)
        print(_line(name, quiet[-1], beside[name]), file=sys.stderr, flush=True)
    p50, p99 = (statistics.median(getattr(one, at) for one in quiet) for at in ("p50_ms", "p99_ms"))
    return {
        "quiet_p50_ms": p50,
        "quiet_p99_ms": p99,
        "attacks": {
            name: {
                "p50_ms": one.p50_ms,
                "p99_ms": one.p99_ms,
                "longest_ms": one.longest_ms,
                "p50_factor": round(one.p50_ms / p50, 1),
                "p99_factor": round(one.p99_ms / p99, 1),
            }
            for name, one in beside.items()
        },
    }


def starved(came: dict[str, Any]) -> list[str]:
    """The attacks beside which appends took too long."""
    return [
        name
        for name, one in came["attacks"].items()
        if one["p50_factor"] > P50_FACTOR_MAX or one["p99_factor"] > P99_FACTOR_MAX
    ]


def _line(name: str, quiet: Written, beside: Written) -> str:
    return (
        f"   {name}: an append takes {beside.p50_ms} ms (p99 {beside.p99_ms} ms, longest {beside.longest_ms} ms); "
        f"before, {quiet.p50_ms} ms (p99 {quiet.p99_ms} ms, longest {quiet.longest_ms} ms)"
    )
