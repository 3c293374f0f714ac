"""Runs in which the metadata store goes back to an older copy of itself under bookies and clients that live on.

What must hold of the ledgers that are made before, meanwhile and afterwards, whichever of them share an id (W8, B3):

    mixed      whoever opens a ledger reads entries of it alone
    collected  what was acknowledged stands on an ack quorum of disks, also after the operator has accepted the older
               copy, ledgers were deleted and every bookie has collected; but for ledgers that were deleted
    noticed    the cluster holds back soon, where nobody writes while the store goes back; and at once where an id was
               given twice
    cut short  whoever recovers a ledger reads all that was acknowledged before, or is told that it cannot be recovered
    unreadable whoever recovers a ledger reads all entries that it ends with, where every bookie answers
    lost       once the operator has accepted, the metadata knows each ledger of which something was acknowledged; not
               where it has given the id to another one

The checkers of the other runs (`seen.py`) know ledgers by their ids, and are told nothing here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from bookie.storage.bookie import Bookie
from bookie.upkeep.inventory.metadata_reconciliation import Compared, bring_up
from bookie.wire import ReadRequest, Status
from bookie.wire.messages import HeldNote, MaintenanceAction
from ledgers.aio import LedgerClient, ReadHandle, WriteHandle
from ledgers.errors import LedgerError
from metadata.backup import hold
from metadata.memory_store import MemoryData
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.records.notes import fragment_note
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.processes import Process
from tests.simulation.engine.world import Violation
from tests.simulation.shells.metadata import VirtualStore

from .cluster import Cluster
from .faults import Faults
from .host import Host
from .hosts import OPERATOR
from .plan import Plan
from .site import ClusterSite
from .users import connected

NOTICED_SECONDS_MAX = 30.0
"""So long after the store went back, with bookies that look each third of ten seconds."""

LOOK_SECONDS = 5.0
"""In which every bookie has looked at the store."""

COMPARED_SECONDS_MAX = 120.0

LATE_SECONDS = 40.0
"""In which nothing late is under way any more."""


class Blind:
    """Stands in for the checkers: takes whatever it is told."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *told: object, **more: object) -> Any:
        return self

    def __getitem__(self, ledger_id: int) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@dataclass
class Made:
    """A ledger that some client made, and what of it was acknowledged."""

    ledger_id: int
    identity: bytes
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    is_deleted: bool = False


class Copy:
    """What the store knew."""

    def __init__(self, data: MemoryData) -> None:
        self._entries, self._leases = dict(data._entries), dict(data._leases)
        self._events, self._revision = deque(data._events, data._events.maxlen), data._revision

    def put_back(self, data: MemoryData, now: float) -> None:
        """The store knows this and nothing else. As an etcd that starts it gives each lease its whole time again."""
        data._entries = self._entries
        data._leases = {n: replace(one, expires_at=now + one.ttl_seconds) for n, one in self._leases.items()}
        data._events, data._revision = self._events, self._revision


class RollbackCluster(Cluster):
    """One run."""

    shape, hosts_count = (3, 3, 2), 4

    def __init__(self, site: ClusterSite) -> None:
        site.watch = site.metadata.watch = Blind()  # type: ignore[assignment]
        super().__init__(site)
        self.made: list[Made] = []
        self._away: list[Host] = []

    async def _run(self, plan: Plan) -> None:
        await self.hosts.begin()
        site, chance = self.site, self.site.world.stream("goes back")
        is_quiet = chance.happens(0.5)
        """Whether nobody writes while the store goes back: then it is noticed for certain."""
        writing = self._writers("early", 6)
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        copy = Copy(site.metadata.data)
        site.world.note("a copy of the metadata is made")
        writing += self._writers("middle", 4)
        await asyncio.sleep(chance.uniform(1.0, 8.0))
        if is_quiet:
            await asyncio.gather(*writing)
            await asyncio.sleep(LOOK_SECONDS)
        copy.put_back(site.metadata.data, site.host_loop.time())
        site.world.note("the metadata goes back to the copy")
        is_held = is_quiet and await self._holds_back()
        if is_quiet and not is_held:
            raise Violation("noticed", "nobody has noticed that the store went back")
        if chance.happens(0.5):
            await asyncio.sleep(chance.unit())
            host = self.hosts.by_name[chance.choice(sorted(self.hosts.by_name))]
            host.down(host.start)
        if is_held:
            await self._accept()
        writing += [*self._writers("late", 6), *(self._client(f"reader{n}", self._reads) for n in range(2))]
        await asyncio.gather(*writing)
        await asyncio.sleep(LATE_SECONDS)
        if not is_held and await self._holds_back():
            await self._accept()
        await self._ends(Faults(site, self.hosts, {}))

    async def _ends(self, faults: Faults) -> None:
        await self._client("deleter", self._deletes)
        for host in self.hosts.by_name.values():
            await faults.maintain(host, MaintenanceAction.COLLECT)
        await self._client("last", self._reads_all)
        for one in self.made:
            await self._stands(one, self.site.plan.shape[2])
        for host in self.hosts.by_name.values():
            await host.went_down(kill=False)

    def _writers(self, name: str, ledgers: int) -> list[asyncio.Task[None]]:
        return [self._client(f"{name}{n}", lambda c, r: self._writes(c, r, ledgers)) for n in range(2)]

    def _client(self, name: str, does: Any) -> asyncio.Task[None]:
        """A process of its own."""

        async def work() -> None:
            client = await connected(self.site, name)
            try:
                await does(client, self.site.world.stream("does", name))
            finally:
                await client.close()

        return Process(self.site.host_loop, f"{name}/1", lambda: None).start(work())

    # --- what clients do ----------------------------------------------------------------------

    async def _writes(self, client: LedgerClient, chance: Stream, ledgers: int) -> None:
        size, writes, acks = self.site.plan.shape
        for _ in range(ledgers):
            await asyncio.sleep(chance.exponential(0.5))
            try:
                writer = await client.create_ledger(ensemble_size=size, write_quorum=writes, ack_quorum=acks)
                await self._appends(writer, chance)
            except LedgerError as error:
                self.site.world.note("%r", error)

    async def _appends(self, writer: WriteHandle, chance: Stream) -> None:
        made = Made(writer.ledger_id, writer.record.identity)
        self.made.append(made)
        for n in range(1 + chance.below(6)):
            payload = payload_of(made.identity, n)
            made.acknowledged[await writer.append(payload)] = payload
            await asyncio.sleep(chance.exponential(0.3))
        if chance.happens(0.7):
            await writer.close()

    async def _reads(self, client: LedgerClient, chance: Stream) -> None:
        for _ in range(12):
            await asyncio.sleep(chance.exponential(0.5))
            ledger_id = 1 + chance.below(20)
            await self._read(client, ledger_id, recovery=chance.happens(0.5))

    async def _reads_all(self, client: LedgerClient, _: Stream) -> None:
        async for record in client.list_ledgers():
            await self._read(client, record.ledger_id, recovery=True)

    async def _read(self, client: LedgerClient, ledger_id: int, *, recovery: bool) -> None:
        acknowledged = {made.identity: max(made.acknowledged, default=-1) for made in self.made}
        try:
            reader = await client.open_ledger(ledger_id, recovery=recovery)
            await self._is_not_mixed(reader)
        except LedgerError as error:
            self.site.world.note("ledger %d: %r", ledger_id, error)
            return
        end, last = acknowledged.get(reader.record.identity, -1), reader.last_add_confirmed
        if recovery and last < end:
            why = f"ledger {ledger_id} is closed at entry {last}, and entry {end} was acknowledged"
            self.site.violated(Violation("cut short", why))

    async def _is_not_mixed(self, reader: ReadHandle) -> None:
        identity = reader.record.identity
        async for entry in reader:
            if entry.payload != payload_of(identity, entry.entry_id):
                why = f"entry {entry.entry_id} of ledger {reader.ledger_id} is {entry.payload!r}, of another one"
                self.site.violated(Violation("mixed", why))

    async def _deletes(self, client: LedgerClient, chance: Stream) -> None:
        """Some of those that there are; by force what cannot be recovered, as the newer ledger of an id given twice."""
        records = [record async for record in client.list_ledgers()]
        for record in records:
            if chance.happens(0.5):
                try:
                    await client.delete_ledger(record.ledger_id)
                except LedgerError as error:
                    self.site.world.note("has to be deleted by force: %r", error)
                    await client.delete_ledger(record.ledger_id, force=True)
                for made in self.made:
                    made.is_deleted |= made.identity == record.identity

    # --- what must hold -----------------------------------------------------------------------

    async def _holds_back(self) -> bool:
        """Whether the cluster does, soon."""
        store = VirtualStore(self.site.metadata, OPERATOR)
        try:
            async with asyncio.timeout(NOTICED_SECONDS_MAX):
                while await hold.read(store) is None:  # noqa: ASYNC110 — a key is polled
                    await asyncio.sleep(0.5)
                return True
        except TimeoutError:
            return False
        finally:
            await store.close()

    async def _accept(self) -> None:
        store = VirtualStore(self.site.metadata, OPERATOR)
        try:
            restored = await hold.read(store)
            assert restored is not None
            there = len(self.hosts.by_name) - len(self._away)
            async with asyncio.timeout(COMPARED_SECONDS_MAX):
                while len(await hold.read_misfits(store, restored)) < there:  # noqa: ASYNC110
                    await asyncio.sleep(1.0)
            running = [host.running for host in self.hosts.by_name.values() if host.running is not None]
            notes = {
                BookieRef(one.cookie.bookie_id, one.cookie.incarnation): _notes(one.bookie) for one in running
            }
            self.site.world.note("%d records are made again", await bring_up(store, notes, Compared()))
            await hold.accept(store, notes)
            if len(running) == len(self.hosts.by_name):
                await self._is_known(store)
        except TimeoutError:
            raise Violation("noticed", "not every bookie has compared what it holds") from None
        finally:
            await store.close()

    async def _is_known(self, store: VirtualStore) -> None:
        known = {found.ledger_id async for found in LedgerStore(store).list_with_deleted()}
        for made in self.made:
            if made.acknowledged and made.ledger_id not in known:
                raise Violation("lost", f"the metadata does not know ledger {made.ledger_id}")

    async def _stands(self, made: Made, ack_quorum: int) -> None:
        for entry_id, payload in made.acknowledged.items():
            holders = [
                host for host in self.hosts.by_name.values() if await _holds(host, made, entry_id, payload)
            ]
            if len(holders) < ack_quorum and not made.is_deleted:
                where = ", ".join(host.name for host in holders) or "no bookie"
                why = f"entry {entry_id} of ledger {made.ledger_id} ({made.identity.hex()}) stands at {where}"
                raise Violation("collected", why)


class CopyOfJustNow(RollbackCluster):
    """The copy is of a moment ago, and no bookie has renewed its key since in most runs: who is given an id again, and
    is refused, shows it to the bookies."""

    async def _run(self, plan: Plan) -> None:
        await self.hosts.begin()
        chance = self.site.world.stream("just now")
        await asyncio.sleep(chance.uniform(0.0, 5.0))
        copy = Copy(self.site.metadata.data)
        await self._client("before", self._writes_one)
        copy.put_back(self.site.metadata.data, self.site.host_loop.time())
        self.site.world.note("the metadata goes back to the copy")
        await self._client("after", self._writes_one)
        before, after = self.made
        assert before.ledger_id == after.ledger_id
        if not after.acknowledged and await hold.read(VirtualStore(self.site.metadata, OPERATOR)) is None:
            raise Violation("noticed", f"ledger {after.ledger_id} is refused, and nobody holds back")
        for host in self.hosts.by_name.values():
            await host.went_down(kill=False)

    async def _writes_one(self, client: LedgerClient, _: Stream) -> None:
        size, writes, acks = self.site.plan.shape
        writer = await client.create_ledger(ensemble_size=size, write_quorum=writes, ack_quorum=acks)
        self.made.append(made := Made(writer.ledger_id, writer.record.identity))
        try:
            payload = payload_of(made.identity, 0)
            made.acknowledged[await writer.append(payload)] = payload
        except LedgerError as error:
            self.site.world.note("%r", error)


async def _notes(bookie: Bookie) -> AsyncGenerator[HeldNote, None]:
    """What it tells over gRPC, without the checkpoint that comes first."""
    kept = bookie.index.notes
    for ledger_id in sorted({*bookie.index.ledger_ids(), *kept._recent, *kept._moving}):
        for first_entry, note in sorted(kept.of(ledger_id).items()):
            yield HeldNote(ledger_id, first_entry, fragment_note.decode(note).identity, note)


def payload_of(identity: bytes, entry_id: int) -> bytes:
    return b"%s %d" % (identity.hex().encode(), entry_id)


async def _holds(host: Any, made: Made, entry_id: int, payload: bytes) -> bool:
    bookie = host.running.bookie
    asked = bookie.incarnation, made.ledger_id, entry_id, entry_id, 1 << 20
    reply = await bookie.read(ReadRequest(*asked, identity=made.identity))
    return reply.status is Status.OK and bytes(reply.columns.payload) == payload
