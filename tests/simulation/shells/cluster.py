"""A simulated cluster and its applications: everything that can go wrong, then calm, then nothing left."""

from __future__ import annotations

import asyncio

from ledgers.aio import LedgerClient, ReadHandle
from ledgers.config import MIB, ClientConfig
from ledgers.creating.new_ledger import NewLedger
from metadata.records.ledger_record import DigestType
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.loop import OWNER, VirtualLoop, owned_by
from tests.simulation.engine.world import Violation

from ..engine.passwords import stretched_password
from .actors import Actor, Board, Setting
from .adapters import client_of, in_virtual_time
from .bookies import VirtualBookie
from .faults import PACES_SECONDS, draw_faults, draw_figures, draw_rules, happen
from .metadata import VirtualMetadata, VirtualStore
from .site import Site
from .sockets import Sockets
from .users import Deleter, Reader, Recoverer, TailReader, User, read_into
from .watch import Watch, WatchedLedger
from .writers import AdvancedWriter, DeferredWriter, Writer

SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (5, 3, 2), (2, 2, 1), (3, 3, 3), (1, 1, 1))
BOOKIES_MAX = 6
CALM_SECONDS = 70.0
"""From here on everything works."""

SETTLE_SECONDS = 30.0
"""So long after the calm nothing late is under way any more, and every bookie is registered again."""

LAST_RECOVERY_TRIES = 5
END_SECONDS_MAX = 400.0
"""So long after the calm every application has come to its end."""

DEREGISTERED_SECONDS = 140.0
"""Time for bookies to notice that clients are gone of whom nothing is heard any more."""

TIMER_SECONDS_MAX = 1.5
"""What a closed client leaves behind may be a timer that does nothing, soon."""


class Cluster:
    """A simulated cluster and its applications, wired, with its faults drawn."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.loop = loop
        chance = Stream(seed * 2654435761 & 0xFFFFFFFF)
        self.site = Site(seed, loop, chance.choice(PACES_SECONDS))
        self.chance = chance = self.site.world.stream("run")
        self.watch = Watch()
        self.store = VirtualMetadata(self.site, self.watch)
        self.shape = chance.choice(SHAPES)
        self.figures = draw_figures(chance)
        self.names = [f"b{n}" for n in range(min(BOOKIES_MAX, self.shape[0] + chance.below(4)))]
        self.bookies: dict[str, VirtualBookie] = {}
        self.sockets = Sockets(self.site)
        self.clients: list[LedgerClient] = []
        self.actors: list[Actor] = []

    async def run(self) -> None:
        OWNER.set("run")
        with in_virtual_time(self.site, self.bookies, self.sockets):
            for name in self.names:
                store = VirtualStore(self.store, name)
                sync_seconds = self.figures.sync_seconds
                self.bookies[name] = VirtualBookie(self.site, self.watch, name, store, sync_seconds)
                await self.bookies[name].has_registered.wait()
            self._gather_actors()
            self._plan_faults()
            playing = [
                self.loop.create_task(self._play(actor), context=owned_by("clients")) for actor in self.actors
            ]
            await asyncio.sleep(CALM_SECONDS)
            await self._calm()
            await self._recover_everything()
            await self._come_to_an_end(playing)
            await self._every_client_works()
            await self._leave_nothing()

    # --- the applications -------------------------------------------------------------------------

    def _client(self, name: str) -> LedgerClient:
        client = client_of(self.site, name, VirtualStore(self.store, name), self._config)
        self.clients.append(client)
        return client

    def _gather_actors(self) -> None:
        chance = self.chance
        ensemble_size, write_quorum, ack_quorum = self.shape
        has_password = chance.happens(0.2)
        new = NewLedger(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=DigestType.HMAC_SHA256 if has_password else DigestType.CRC32C,
            password=stretched_password() if has_password else b"",
        )
        self._config = _draw_config(chance)
        self._setting = Setting(
            self.site,
            self.watch,
            Board(),
            new,
            has_big_entries=chance.happens(0.1),
            cancels_share=chance.choice((0.0, 0.05, 0.3)),
            recover_at=chance.choice((None, chance.uniform(1, 30))),
            calm=asyncio.Event(),
        )
        self._add(DeferredWriter if chance.happens(0.2) else Writer, "writer")
        for n in range(1 + chance.below(3)):
            self._add_for("writer", Recoverer, f"r{n}")
        for n in range(1 + chance.below(2)):
            self._add_for("writer", TailReader, f"t{n}")
        if chance.happens(0.6):
            self._add_for("writer", Reader, "p0")
        if chance.happens(0.1):
            self._add_for("writer", Deleter, "deleter")
        if chance.happens(0.4):
            self._add(AdvancedWriter, "advanced")
            self._add_for("advanced", TailReader, "t9")
            self._add_for("advanced", Recoverer, "r9")

    def _add(self, kind: type[Actor], name: str) -> None:
        self.actors.append(kind(name, self._setting, self._client(name)))

    def _add_for(self, writer: str, kind: type[User], name: str) -> None:
        self.actors.append(kind(name, self._setting, self._client(name), writer))

    async def _play(self, actor: Actor) -> None:
        leaving = None
        if self.chance.happens(0.1):
            leaving = self.loop.create_task(self._leave_at(actor, self.chance.uniform(0, CALM_SECONDS)))
        try:
            await actor.run()
        finally:
            if leaving is not None:
                leaving.cancel()
                await asyncio.wait([leaving])

    async def _leave_at(self, actor: Actor, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await asyncio.shield(self.loop.create_task(actor.leave()))

    # --- what goes wrong ----------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        actors = [actor.name for actor in self.actors]
        nodes = [*self.names, *actors]
        self.site.expect_weather(self.figures, draw_rules(self.chance, nodes))
        for fault in draw_faults(self.chance, self.names, actors):
            event = lambda f=fault: happen(f, self.site, self.bookies, self.store)  # noqa: E731
            self.site.world.at(fault.at, event)

    async def _calm(self) -> None:
        self.site.world.note("calm")
        self.site.calm()
        self.store.calm()
        for bookie in self.bookies.values():
            bookie.heal()
        self._setting.calm.set()
        await asyncio.sleep(SETTLE_SECONDS)

    # --- what must hold in the end -------------------------------------------------------------------

    async def _recover_everything(self) -> None:
        """One more client recovers every ledger, and reads what was confirmed."""
        last = Actor("last", self._setting, self._client("last"))
        for watched in self.watch:
            await self._recover(last, watched)

    async def _recover(self, last: Actor, watched: WatchedLedger) -> None:
        failure: object = None
        for _ in range(LAST_RECOVERY_TRIES):
            if watched.is_deleted:
                return None
            opening = last.client.open_ledger(watched.ledger_id, password=self._setting.password)
            opened = await last.attempt("recover", opening, may_cancel=False)
            if isinstance(opened, ReadHandle):
                return await self._read_all(last, watched, opened)
            failure = opened
        raise Violation("liveness", f"ledger {watched.ledger_id} cannot be recovered: {failure!r}")

    async def _read_all(self, last: Actor, watched: WatchedLedger, reader: ReadHandle) -> None:
        watched.ended(last.name, reader.record)
        reading = read_into(last.name, watched, reader.read())
        count = await last.attempt("read all", reading, may_cancel=False)
        if count != watched.last_entry + 1 and not watched.is_deleted:
            raise Violation("I6", f"of {watched.last_entry + 1} entries {count!r} could be read")

    async def _come_to_an_end(self, playing: list[asyncio.Task[None]]) -> None:
        done, left = await asyncio.wait(playing, timeout=END_SECONDS_MAX)
        for task in playing:
            if task in done:
                task.result()
        if left:
            names = [actor.name for actor, task in zip(self.actors, playing, strict=True) if task in left]
            raise Violation("liveness", f"{', '.join(names)} did not come to an end")

    async def _every_client_works(self) -> None:
        """What a client went through has broken nothing of it: it writes a ledger, and another reads that."""
        for actor in self.actors:
            if not actor.has_left:
                writer = Writer(f"{actor.name} again", self._setting, actor.client)
                await writer.write_one_ledger()

    async def _leave_nothing(self) -> None:
        """Once all clients are closed nothing of theirs runs, here or at the bookies."""
        for client in self.clients:
            await client.close()
        self._no_task_is_left("clients")
        self._no_task_is_left("run")
        self._no_timer_is_left()
        if any(wire.near.is_open for wire in self.sockets.opened):
            raise Violation("leftovers", "a connection was never closed")
        await asyncio.sleep(DEREGISTERED_SECONDS)
        for bookie in self.bookies.values():
            if bookie.sessions:
                raise Violation("leftovers", f"{bookie.name} still has {len(bookie.sessions)} connections")
            bookie.stop()
            await bookie.leave()
            self._no_task_is_left(bookie.name)

    def _no_task_is_left(self, owner: str) -> None:
        left = [task for task in self.loop.running_tasks(owner) if task is not asyncio.current_task()]
        if left:
            raise Violation("leftovers", f"tasks of {owner}: {left[:3]}")

    def _no_timer_is_left(self) -> None:
        now = self.loop.time()
        for timer in self.loop.pending_timers():
            callback = repr(timer)
            if "ledgers/" in callback and timer.when() - now > TIMER_SECONDS_MAX:
                raise Violation("leftovers", f"a timer {timer.when() - now:.1f} s ahead: {timer!r}")


def _draw_config(chance: Stream) -> ClientConfig:
    """Settings at which more of the rare paths are taken than at the defaults."""
    return ClientConfig(
        pending_bytes_max=chance.choice((MIB, 32 * MIB)),
        lane_backlog_bytes_max=chance.choice((MIB, 64 * MIB)),
        window_bytes_max=chance.choice((MIB, 4 * MIB)),
        append_seconds_max=chance.choice((1.0, 5.0)),
        append_quorum_seconds_max=chance.choice((10.0, 60.0)),
        read_seconds_max=chance.choice((2.0, 10.0)),
        read_ahead_pages=chance.choice((1, 4)),
        idle_lac_seconds=chance.choice((0.05, 2.0, 30.0)),
        failed_bookie_seconds=chance.choice((1.0, 30.0)),
        long_poll_seconds=chance.choice((1.0, 10.0)),
    )
