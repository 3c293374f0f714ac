"""The users of a run, each a process with a client of its own: asyncio, blocking, and of journals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing

from ledgers import LedgerClient as BlockingClient
from ledgers import LedgerError
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from tests.simulation.engine.app_threads import AppThread, AppThreads
from tests.simulation.engine.processes import Process
from tests.simulation.shells.actors import Actor, Setting
from tests.simulation.shells.users import Deleter, Reader, Recoverer, TailReader
from tests.simulation.shells.writers import AdvancedWriter, DeferredWriter, Writer

from . import plan as plans
from .blocking import BlockingFollower, BlockingUser, BlockingWriter
from .config import draw_config
from .journals import JOURNALS, READS, JournalReader, JournalSeen, JournalWriter
from .offloading import OffloadUser
from .seen import Seen
from .site import ClusterSite

WRITERS: Mapping[str, type[Writer]] = {
    "writes": Writer,
    "writes deferred": DeferredWriter,
    "writes advanced": AdvancedWriter,
}
BLOCKING: Mapping[str, type[BlockingUser]] = {
    "writes blocking": BlockingWriter,
    "follows blocking": BlockingFollower,
}
USERS = {
    "follows": TailReader,
    "looks": Reader,
    "recovers": Recoverer,
    "deletes": Deleter,
    "offloads": OffloadUser,
}


class User:
    """One application's process."""

    def __init__(
        self,
        site: ClusterSite,
        seen: Seen,
        threads: AppThreads,
        setting: Setting,
        wants: plans.User,
        journals: Mapping[str, JournalSeen],
    ) -> None:
        self.wants = wants
        self.name = wants.name
        self.client: LedgerClient | None = None
        self.actor: Actor | JournalWriter | JournalReader | None = None
        self._site = site
        self._seen = seen
        self._setting = setting
        self._threads = threads
        self._journals = journals
        self._thread: AppThread | None = None
        self.process = Process(site.host_loop, f"{wants.name}/1", lambda: None)
        self.playing = self.process.start(self._play())

    async def _play(self) -> None:
        await asyncio.sleep(self.wants.at)
        if self.wants.does in BLOCKING:
            await self._play_on_thread()
            return
        if self.wants.does in JOURNALS or self.wants.does in READS:
            self.actor = self._journal_user()
            await self.actor.run()
            return
        self.client = await connected(self._site, self.name)
        self.actor = self._actor(self.client)
        await self.actor.run()

    async def _play_on_thread(self) -> None:
        ended = asyncio.get_running_loop().create_future()
        config = draw_config(self._site.world.stream("config", self.name))

        def run() -> None:
            kind = BLOCKING[self.wants.does]
            with closing(connected_blocking(self._threads, self.name, config)) as client:
                kind(self.name, self._setting, self._threads, client, self.wants.of).run()

        self._thread = self._threads.start(self.process, run)
        self._thread.on_end(lambda: None if ended.done() else ended.set_result(None))
        await ended
        if self._thread.failure is not None:
            raise self._thread.failure

    def _journal_user(self) -> JournalWriter | JournalReader:
        does = self.wants.does
        if does in JOURNALS:
            return JournalWriter(self.name, self._setting, does, self._journals[does])
        return JournalReader(self.name, self._setting, READS[does], self._journals[READS[does]])

    def _actor(self, client: LedgerClient) -> Actor:
        writer = WRITERS.get(self.wants.does)
        if writer is not None:
            return writer(self.name, self._setting, client)
        return USERS[self.wants.does](self.name, self._setting, client, self.wants.of)

    def leave(self, *, in_order: bool = False) -> None:
        """Its process is killed; `in_order`: its client is closed, whatever is under way."""
        if self.process.is_dead:
            return
        if in_order:
            if isinstance(self.actor, Actor) and not self.has_left:
                self.process.start(self.actor.leave())
            return
        self._site.world.note("%s is killed", self.name)
        if self.actor is not None:
            self.actor.has_left = True
        self._seen.stores_of(self.process)
        if self._thread is not None:
            self._threads.kill(self.process)
        self.process.die()
        self._setting.board.ledgers.setdefault(self.name, None)
        self._setting.board.tell(self.name, self._setting.board.ledgers[self.name])

    @property
    def has_left(self) -> bool:
        return self.process.is_dead or (self.actor is not None and self.actor.has_left)


def connected_blocking(threads: AppThreads, name: str, config: ClientConfig) -> BlockingClient:
    """The same in ordinary code, where it may take a few tries."""
    while True:
        try:
            return BlockingClient(f"sim://{name}", config=config)
        except LedgerError:
            threads.sleep(1.0)


async def connected(site: ClusterSite, name: str) -> LedgerClient:
    """A client of its own for whoever has this name."""
    client = LedgerClient(f"sim://{name}", config=draw_config(site.world.stream("config", name)))
    await client.connect()
    return client
