"""Hostile clients in a process of their own.

    python -m tests.siege.strangers NICE LARGE_LEDGER ATTACKS CERTIFICATES ADDRESS,HTTP_ADDRESS...

Each has an address of its own and does everything in `attacks` (or only some) at once to every bookie, until it is
killed; lines of JSON tell how often. With a high NICE they leave the processor to others: strangers have
their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

from bookie.serving.limits.descriptors import allow_most
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import Role

from .attacks import Stranger, again_and_again
from .http_attacks import HttpStranger

STRANGERS = 8
TELL_SECONDS = 0.25


async def besiege(target: str, only: list[str], certificates: str, addresses: list[str]) -> None:
    """`target`: a ledger's id and identity; `certificates`: a directory with those of the roles that strangers have."""
    ledger_id, identity = target.split(":")
    large = int(ledger_id), bytes.fromhex(identity)
    client, console = (
        Certificates(f"{certificates}/{role.value}").client if certificates else None
        for role in (Role.CLIENT, Role.CONSOLE)
    )
    counts: dict[str, int] = {}
    attacking = [
        asyncio.create_task(again_and_again(attack, counts))
        for local in (f"127.0.0.{10 + number}" for number in range(STRANGERS))
        for address, _, http in (both.partition(",") for both in addresses)
        for attack in (
            *Stranger(local, address, *large, client).attacks(),
            *HttpStranger(local, http, console).attacks(),
        )
        if not only or attack.__name__ in only
    ]
    while True:
        print(json.dumps(counts), flush=True)
        await asyncio.sleep(TELL_SECONDS)
        for task in attacking:
            if task.done():
                task.result()  # what no stranger expects


def main() -> None:
    os.nice(int(sys.argv[1]))
    allow_most()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # that nobody takes what a stranger sends is no news
    target, only, certificates, *addresses = sys.argv[2:]
    asyncio.run(besiege(target, only.split(",") if only else [], certificates, addresses))


if __name__ == "__main__":
    main()
