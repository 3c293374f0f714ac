"""Bookies in virtual time: the product's service and core over a simulated log, and its registration.

What a client sends reaches the product's `bookie.serving.data` as bytes. Between that and the core stands `bookie_log`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from pathlib import Path
from typing import Any, TypeVar, cast

from bookie.errors import NameTaken
from bookie.limits_config import Limits
from bookie.serving.data.session import Session
from bookie.serving.history.metadata_watch import ALWAYS
from bookie.serving.limits.admission import Guard
from bookie.serving.limits.descriptors import UNLIMITED
from bookie.serving.registration import Registrar
from bookie.serving.requests import Requests
from bookie.storage.bookie import Bookie
from bookie.wire import (
    Status,
)
from bookie.wire.connection_table import ClientConnection
from metadata.errors import MetadataError
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.store import MetadataStore
from tests.simulation.cores.plans.plan import DiskFault, FailSync, SlowDisk
from tests.simulation.cores.site.disk import SimulatedDisk
from tests.simulation.cores.site.node import Node
from tests.simulation.engine.loop import owned_by
from tests.simulation.engine.world import Action

from .bookie_log import LogInMemory
from .site import Site
from .sockets import Factory, VirtualSocket
from .watch import Watch

PAGE_ENTRIES_MAX = 6
"""A page ends after so many entries or fewer: what a bound in bytes does."""

LEASE_SECONDS = 20.0
REGISTER_AGAIN_SECONDS = 1.0

CALM_SYNC_SECONDS = 0.05
"""After the calm no disk is so slow that its bookie counts as failed."""

T = TypeVar("T")

OnAnswer = Callable[[Status, str], None]


class VirtualBookie(Node):
    """A bookie's process, its disk, and its registration under a lease."""

    def __init__(
        self, site: Site, watch: Watch, name: str, store: MetadataStore, sync_seconds: float
    ) -> None:
        super().__init__(site.world, name)
        self.site = site
        self.watch = watch
        self.ref = BookieRef(name, f"incarnation of {name}")
        self.disk = SimulatedDisk(site.world, name, sync_seconds)
        self.pages = site.world.stream("page", name)
        self.sessions: dict[Session, None] = {}
        self._sockets: list[VirtualSocket] = []
        self._store = store
        self._sync_seconds = sync_seconds
        self._slowed = 1.0
        self._life = 0
        self.has_registered = asyncio.Event()
        self._registering: asyncio.Task[None] | None = None
        self._start()

    def _start(self) -> None:
        self.up = True
        self._log = LogInMemory(self)
        self._guard = Guard(Limits(), UNLIMITED, self.site.loop.time)
        cookie = Cookie("cluster", self.name, self.ref.incarnation)
        # Requests use of a Bookie what LogInMemory has.
        self._requests = Requests(
            cast("Bookie", self._log), cookie, Path(), "simulated", vouched_since=_for_all_time
        )
        self._registering = self._start_task(self._keep_registered())

    @property
    def is_up(self) -> bool:
        return self.up

    # --- life -------------------------------------------------------------------------------------

    def deliver(self, event: Action) -> None:
        """To this life of the process: what waits for the end of a pause is lost when it dies meanwhile."""
        life = self._life
        super().deliver(lambda: event() if self._life == life else None)

    def crash(self, keeps: float = 0.0) -> None:
        if self.up:
            self.up = False
            self._life += 1
            self.wake()
            self._log.die(keeps)
            sockets, self._sockets = self._sockets, []
            for socket in sockets:
                socket.die()
            self.sessions.clear()
            self._end_tasks()

    def restart(self) -> None:
        if self.up:
            return
        self.world.note("%s restarts", self.name)
        self._start()
        for watched in self.watch:
            fenced = self._log.is_fenced(watched.ledger_id)
            watched.checker.restarted(self.ref, fenced=fenced, held=watched.disk(self.ref))

    def die_of(self, failure: FailSync) -> None:
        """A failed sync is never tried again: the process ends, and nothing of it is acknowledged (B1)."""
        self.crash(failure.keeps)
        self.world.after(failure.seconds, self.restart)

    def damage(self, fault: DiskFault) -> None:
        self.world.note("%s", fault)
        self.disk.damage(fault)
        if isinstance(fault, SlowDisk):
            self._slowed *= fault.factor

    def heal(self) -> None:
        """Everything works from here on."""
        self.disk.heal()
        factor = min(1.0, CALM_SYNC_SECONDS / self._sync_seconds) / self._slowed
        self.disk.damage(SlowDisk(self.world.now, self.name, factor=factor))
        self.wake()
        self.restart()
        # A sync that a slow disk began may otherwise last for minutes yet.
        self.world.after(CALM_SYNC_SECONDS, lambda: self.deliver(self._log.sync))

    def stop(self) -> None:
        """As an operator stops it: streams end when all they sent is answered."""
        self.world.note("%s stops", self.name)
        self._log.end_waits()
        for session in list(self.sessions):
            session.stop()

    def tasks(self) -> list[asyncio.Task[Any]]:
        """The calls that are served here, and the registration."""
        return self.site.loop.running_tasks(self.name)

    async def leave(self) -> None:
        """At the end of the run."""
        self._end_tasks()
        if left := self.tasks():
            await asyncio.wait(left)

    def _end_tasks(self) -> None:
        for task in self.tasks():
            task.cancel()

    async def _keep_registered(self) -> None:
        registration = Registration(self.ref, self.name, fault_domain=f"rack {int(self.name[1:]) % 3}")
        while True:
            registrar = Registrar(self._store, registration, LEASE_SECONDS)
            try:
                await registrar.register()
                self.has_registered.set()
                await registrar.keep()
            except (MetadataError, NameTaken):  # the daemon ends, and whoever watches it starts it again
                await asyncio.sleep(REGISTER_AGAIN_SECONDS)

    # --- connections --------------------------------------------------------------------------------

    def accept(self) -> tuple[Factory, Context]:
        guard = self._guard

        def begin() -> asyncio.BaseProtocol:
            visitor = guard.table.enter("one network", lambda _: None)
            assert isinstance(visitor, ClientConnection), visitor
            session = Session(lambda: self._requests, guard, visitor, self._has_lost)
            self.sessions[session] = None
            return session.connection

        return begin, owned_by(self.name)

    def keep(self, end: VirtualSocket) -> None:
        self._sockets.append(end)

    def _has_lost(self, session: Session) -> None:
        self.sessions.pop(session, None)

    def _start_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.site.loop.create_task(work, context=owned_by(self.name))


async def _for_all_time() -> int:
    """The store of these runs never goes back."""
    return ALWAYS
