"""The end of a run: power, metadata and replicas stay, and after some upkeep everything is in order."""

from __future__ import annotations

from collections.abc import Callable

from bookie.index.index import Index
from bookie.storage import ledger_states, stored_frames
from bookie.storage.bookie import Bookie
from tests.simulation.engine.world import Violation

from .changes import close
from .chores import Chores
from .clients import Clients
from .ledgers import Ledger
from .plan import Append, Read
from .site import Site

ROUNDS = 2
"""Major rounds after which the log is in order."""

MAJOR_RATIO = 0.8
SETTLED_SEGMENT_BYTES = 4000
"""Only segments that hold many records come to rest; the others are mostly headers and manifests."""

STATE_BYTES = 160
"""A STATE record is no larger."""

NEWEST = Append(99, 0, 5)
"""To a ledger that no plan names."""


class Calm:
    """Belongs to the last life. Nothing goes wrong any more, and nothing else is under way."""

    def __init__(
        self, site: Site, bookie: Bookie, clients: Clients, chores: Chores, look: Callable[[], None]
    ) -> None:
        self._site = site
        self._bookie = bookie
        self._clients = clients
        self._chores = chores
        self._look = look

    async def comes(self) -> None:
        """Raises Violation where it does not."""
        for ledger in self._site.ledgers:
            if not ledger.is_deleted:
                close(self._site, ledger)
        await self._chores.scrub()
        await self._chores.repair()
        for _ in range(ROUNDS):
            await self._round()
        self._look()
        await self._is_settled()
        self._is_in_order()
        await self._reads_all()
        await self._is_bounded()

    async def _round(self) -> None:
        await self._chores.collect(misplaced=True)
        await self._chores.compact(MAJOR_RATIO)

    async def _is_settled(self) -> None:
        disk = self._site.machine.disk
        await self._chores.checkpoint()
        before = disk.operations
        await self._round()
        if self._site.plan.sizes.segment >= SETTLED_SEGMENT_BYTES and disk.operations != before:
            raise Violation("rest", "a round wrote something, and there was nothing to do")

    def _is_in_order(self) -> None:
        for ledger in self._site.ledgers:
            state = self._bookie.states.peek(ledger.ledger_id)
            if state.limbo:
                raise Violation("rest", f"ledger {ledger.ledger_id} is still in limbo")
            if ledger.is_deleted:
                self._is_forgotten(ledger)
        if len(self._bookie.files._open) > stored_frames.OPEN_SEGMENTS_MAX or self._bookie.intake.bytes:
            raise Violation("bound", "files or bytes of the queue are held")
        self._is_compact(self._bookie.index)

    def _is_forgotten(self, ledger: Ledger) -> None:
        index = self._bookie.index
        held = [place for _, place in index.places(ledger.ledger_id)]
        used = [n for n in index.usage.totals() if ledger.ledger_id in index.usage.of(n)]
        if held or used or index.ledger(ledger.ledger_id) is not None:
            raise Violation("B3", f"ledger {ledger.ledger_id} is deleted, and something of it stays")

    def _is_compact(self, index: Index) -> None:
        """By the places, not by what the index says of the segments."""
        disk, segment = self._site.machine.disk, self._site.plan.sizes.segment
        alive = sum(place.size for _, place in index.places()) + STATE_BYTES * len(list(self._site.ledgers))
        size = sum(len(data) for data in disk.contents().values())
        if segment >= SETTLED_SEGMENT_BYTES and size > 2 * alive + 3 * segment:
            raise Violation("rest", f"the log has {size} bytes, of which {alive} are alive")

    async def _reads_all(self) -> None:
        """With nothing excused any more."""
        for ledger in self._site.ledgers:
            ledger.excused.clear()
            ledger.damaged.clear()
            if not ledger.is_deleted:
                for first in (0, *sorted(ledger.owed)[-1:]):
                    await self._clients.read(Read(ledger.ledger_id, first))
        self._look()

    async def _is_bounded(self) -> None:
        """In what it holds in memory, once a checkpoint has had something to do."""
        await self._clients.append(NEWEST)
        await self._chores.checkpoint()
        if len(self._bookie.states) > ledger_states.STATES_MAX:
            raise Violation("bound", f"{len(self._bookie.states)} states are held")
