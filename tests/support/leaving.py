"""A program that uses a client and then leaves it in some way.

python -m tests.support.leaving HOW URI

interrupted            in a `with` block, until a signal comes
interrupted_asyncio    in an `async with` block, until a signal comes
open                   ends with a client, a writer that has appends pending and a half-read reader
open_asyncio           the same with the asyncio client, and the loop closed behind it
loops                  makes one client after the other on event loops of their own, beside one that stays
"""

from __future__ import annotations

import asyncio
import sys
import time

from bookledger import LedgerClient
from ledgers.aio import LedgerClient as AsyncLedgerClient


def interrupted(uri: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        writer.append(b"confirmed")
        print("ready", flush=True)
        sys.stdin.readline()
        writer.append_async(b"pending")
        print("pending", flush=True)
        time.sleep(600)


async def interrupted_asyncio(uri: str) -> None:
    async with AsyncLedgerClient(uri) as client, await client.create_ledger() as writer:
        await writer.append(b"confirmed")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await writer.append_async(b"pending")
        print("pending", flush=True)
        await asyncio.sleep(600)


def leave_open(uri: str) -> None:
    client = LedgerClient(uri)
    writer = client.create_ledger()
    for _ in range(1000):
        writer.append_async(bytes(1000))
    writer.flush()
    tail = client.open_ledger(writer.ledger_id, recovery=False).tail()
    print(next(tail).entry_id)
    half_read = client.open_ledger(writer.ledger_id, recovery=False).read()
    print(next(half_read).entry_id)
    writer.append_async(b"pending")


async def leave_open_asyncio(uri: str) -> None:
    client = AsyncLedgerClient(uri)
    writer = await client.create_ledger()
    await writer.append(b"x")
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    print((await anext(reader.tail())).entry_id)
    await writer.append_async(b"pending")


async def write_once(uri: str) -> None:
    async with AsyncLedgerClient(uri) as client, await client.create_ledger() as writer:
        await writer.append(b"x")


def loops(uri: str) -> None:
    with LedgerClient(uri) as staying:
        writer = staying.create_ledger()
        for _ in range(8):
            writer.append(b"x")
            asyncio.run(write_once(uri))
            with LedgerClient(uri) as client, client.create_ledger() as other:
                other.append(b"x")
        writer.close()


if __name__ == "__main__":
    how, metadata_uri = sys.argv[1:]
    match how:
        case "interrupted":
            interrupted(metadata_uri)
        case "interrupted_asyncio":
            asyncio.run(interrupted_asyncio(metadata_uri))
        case "open":
            leave_open(metadata_uri)
        case "open_asyncio":
            asyncio.run(leave_open_asyncio(metadata_uri))
        case "loops":
            loops(metadata_uri)
