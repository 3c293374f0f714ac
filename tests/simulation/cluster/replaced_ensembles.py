"""Runs in which the bookies of a ledger are replaced before the metadata store goes back to a copy that names them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ledgers.aio import LedgerClient, ReadHandle, WriteHandle
from ledgers.errors import EntryUnreadable, LedgerError
from metadata.records.ledger_record import BookieRef
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.world import Violation

from .faults import Faults
from .metadata_rollback import LATE_SECONDS, LOOK_SECONDS, Copy, Made, RollbackCluster, payload_of
from .plan import Plan

ENTRIES_BEFORE = 3
"""Entries of a ledger before its bookies are replaced."""


class ReplacedEnsemble(RollbackCluster):
    """Each bookie that a ledger had when the copy was made is replaced before the store goes back; then somebody opens
    the ledger at once."""

    shape, hosts_count = (2, 2, 2), 5
    come_back_at_once = True

    async def _run(self, plan: Plan) -> None:
        await self.hosts.begin()
        site, chance = self.site, self.site.world.stream("goes back")
        written: asyncio.Future[WriteHandle] = site.host_loop.create_future()
        is_over = asyncio.Event()
        writing = self._client("steady", lambda client, r: self._writes_on(client, r, written, is_over))
        writer = await written
        await asyncio.sleep(chance.exponential(1.0))
        copy = Copy(site.metadata.data)
        site.world.note("a copy of the metadata is made")
        for bookie in self._to_replace(writer, chance):
            await self._is_replaced(writer, bookie)
            await asyncio.sleep(chance.exponential(0.5))
        await self._is_about_to_go_back(writer, writing, is_over)
        copy.put_back(site.metadata.data, site.host_loop.time())
        site.world.note("the metadata goes back to the copy")
        await self._has_gone_back()
        for n in range(2):
            await self._client(
                f"reader{n}", lambda client, _: self._read(client, writer.ledger_id, recovery=True)
            )
        is_over.set()
        await writing
        await asyncio.sleep(LATE_SECONDS)
        if await self._holds_back():
            await self._accept()
        await self._ends(Faults(site, self.hosts, {}))

    async def _is_about_to_go_back(
        self, writer: WriteHandle, writing: asyncio.Task[None], is_over: asyncio.Event
    ) -> None:
        del writer, writing, is_over
        if self._away:  # they do not notice, and all that live do: they have renewed their keys since
            await asyncio.sleep(LOOK_SECONDS)

    async def _has_gone_back(self) -> None:
        await self._come_back()

    def _to_replace(self, writer: WriteHandle, _: Stream) -> Iterable[BookieRef]:
        """One after the other."""
        return writer.record.fragments[-1].ensemble

    async def _is_not_mixed(self, reader: ReadHandle) -> None:
        try:
            await super()._is_not_mixed(reader)
        except EntryUnreadable as error:
            if set(error.answers.values()) != {"has no such entry"}:
                raise  # somebody did not answer, and may have it
            self.site.violated(Violation("unreadable", str(error)))

    async def _writes_on(
        self,
        client: LedgerClient,
        chance: Stream,
        written: asyncio.Future[WriteHandle],
        is_over: asyncio.Event,
    ) -> None:
        size, writes, acks = self.site.plan.shape
        writer = await client.create_ledger(ensemble_size=size, write_quorum=writes, ack_quorum=acks)
        made = Made(writer.ledger_id, writer.record.identity)
        self.made.append(made)
        try:
            while not is_over.is_set():
                payload = payload_of(made.identity, len(made.acknowledged))
                made.acknowledged[await writer.append(payload)] = payload
                if len(made.acknowledged) == ENTRIES_BEFORE:
                    written.set_result(writer)
                await asyncio.sleep(chance.exponential(0.1))
        except LedgerError as error:
            self.site.world.note("%r", error)

    async def _is_replaced(self, writer: WriteHandle, bookie: BookieRef) -> None:
        """It dies, the writer goes on with another one, and it serves again."""
        host = self.hosts.by_name[bookie.bookie_id]
        await host.went_down()
        while bookie in writer.record.fragments[-1].ensemble:  # noqa: ASYNC110 — a record is polled
            await asyncio.sleep(0.1)
        self._away.append(host)
        if self.come_back_at_once:
            await self._come_back()

    async def _come_back(self) -> None:
        """Whoever is away serves again when this returns: one that is starting is not heard."""
        for host in self._away:
            host.start()
        while any(host.running is None for host in self._away):  # noqa: ASYNC110 — processes are polled
            await asyncio.sleep(0.1)
        self._away.clear()


class EnsembleThatComesBack(ReplacedEnsemble):
    """More bookies are replaced than there are others: who has left is chosen again, and lacks what came meanwhile."""

    def _to_replace(self, writer: WriteHandle, chance: Stream) -> Iterable[BookieRef]:
        for _ in range(3 + chance.below(4)):
            yield chance.choice(writer.record.fragments[-1].ensemble)


class EnsembleThatWasAway(ReplacedEnsemble):
    """The bookies that were replaced come back after the store has gone back, and have nothing to tell it by."""

    come_back_at_once = False


class EnsembleThatIsAwayAtTheAcceptance(ReplacedEnsemble):
    """The writer's last bookies are away when an operator accepts the older copy, and back before anybody opens the
    ledger."""

    async def _is_about_to_go_back(
        self, writer: WriteHandle, writing: asyncio.Task[None], is_over: asyncio.Event
    ) -> None:
        is_over.set()
        await writing
        await asyncio.sleep(LOOK_SECONDS)
        for bookie in writer.record.fragments[-1].ensemble:
            self._away.append(self.hosts.by_name[bookie.bookie_id])
            await self._away[-1].went_down()

    async def _has_gone_back(self) -> None:
        if not await self._holds_back():
            raise Violation("noticed", "nobody has noticed that the store went back")
        await self._accept()
        await self._come_back()
