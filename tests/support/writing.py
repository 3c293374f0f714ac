"""A writer for tests that knows what was confirmed to it, and an auditor that looks behind the client's back."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bookie.wire import ReadRequest, Status
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.errors import BookieUnavailable
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import LedgerRecord


def payload_of(entry_id: int, size: int) -> bytes:
    """Bytes that say which entry they are, different for every entry."""
    seed = hashlib.sha256(b"%d" % entry_id).digest()
    return (seed * (size // len(seed) + 1))[:size]


@dataclass(slots=True)
class ConstantWriter:
    """Appends entries of one size, `in_flight` at a time, until told to stop."""

    handle: WriteHandle
    size: int = 500
    in_flight: int = 200
    confirmed: int = 0
    stopping: bool = False
    waiters: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)

    async def run(self) -> None:
        under_way: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue(self.in_flight)

        async def append_all() -> None:
            entry_id = 0
            while not self.stopping:
                await under_way.put(await self.handle.append_async(payload_of(entry_id, self.size)))
                entry_id += 1

        async with asyncio.TaskGroup() as group:
            appending = group.create_task(append_all())
            while not (appending.done() and under_way.empty()):
                entry_id = await (await under_way.get())
                assert entry_id == self.confirmed, "confirmed out of order (W2)"
                self.confirmed += 1
                self._wake()

    def _wake(self) -> None:
        while self.waiters and self.waiters[0][0] <= self.confirmed:
            self.waiters.pop(0)[1].set_result(None)

    async def until_confirmed(self, more: int) -> None:
        """Returns when so many more entries are confirmed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append((self.confirmed + more, future))
        self.waiters.sort(key=lambda waiter: waiter[0])
        await future


async def copies_of_every_entry(
    client: LedgerClient, record: LedgerRecord, last_entry: int, expected: Callable[[int], bytes]
) -> Counter[int]:
    """How many bookies *that the metadata names for it* hold each entry with exactly the right bytes (W3)."""
    copies: Counter[int] = Counter()
    striping = Striping(record.shape)
    bookies = (await client._connected()).bookies
    starts = [fragment.first_entry for fragment in record.fragments[1:]]
    for fragment, end in zip(record.fragments, [*starts, last_entry + 1], strict=True):
        for position, bookie in enumerate(fragment.ensemble):
            next_entry = fragment.first_entry
            while next_entry < end:
                asked = bookie.incarnation, record.ledger_id, next_entry, end - 1, 1 << 20
                request = ReadRequest(*asked, identity=record.identity)
                try:
                    reply = await bookies.read(bookie, request)
                except BookieUnavailable:
                    break
                assert reply.status in (Status.OK, Status.NO_SUCH_LEDGER), reply.status
                assert not reply.damaged
                for entry_id, payload, _ in reply.columns.rows():
                    assert bytes(payload) == expected(entry_id), f"{bookie} holds other bytes for {entry_id}"
                    copies[entry_id] += striping.holds(position, entry_id)
                next_entry = reply.covered_through + 1
    return copies
