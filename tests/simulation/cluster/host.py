"""A host: its machine, and one life of the bookie's daemon after the other, with an operator who looks after it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

from bookie.config import BookieConfig
from bookie.errors import BookieError, DataDirectoryError
from bookie.serving import daemon
from bookie.serving.daemon import RunningBookie
from bookie.upkeep_config import UpkeepConfig
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.errors import MetadataError
from tests.simulation.engine.processes import Process
from tests.simulation.engine.threads import THREAD_SECONDS, Died
from tests.simulation.engine.world import Violation
from tests.simulation.shells.sockets import Factory, VirtualSocket

from .machine import Machine
from .seen import Seen
from .server import VirtualPort, VirtualServer
from .site import ClusterSite

AGAIN_SECONDS = 2.0
"""After this a supervisor starts what has ended by itself."""

PORT = 3181

ENDS = (BookieError, MetadataError, OSError)
"""What the daemon may end with."""


class Host:
    """Keeps `shells.sockets.Host`. `is_wanted`: is to be up; `is_left_alone`: no operator is at it."""

    def __init__(self, site: ClusterSite, seen: Seen, name: str, machine: Machine) -> None:
        self.site = site
        self.name = name
        self.machine = machine
        self.process: Process | None = None
        self.server: VirtualServer | None = None
        self.port: VirtualPort | None = None
        self.running: RunningBookie | None = None
        self.is_ready = asyncio.Event()
        self.accepts_loss = False
        self.is_left_alone = asyncio.Event()
        self.is_left_alone.set()
        self.is_wanted = False
        self.why_down: BaseException | None = None
        self._seen = seen
        self._lives = 0
        self._slowed = 1.0
        self._task: asyncio.Task[None] | None = None
        self._then: Callable[[], object] | None = None
        self._loss, self._off_seconds = "chaos", 0.0

    # --- the network ----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return (
            self.port is not None
            and self.port.is_open
            and self.process is not None
            and not self.process.is_dead
        )

    def deliver(self, event: Callable[[], None]) -> None:
        """A process that stands still is told by its kernel when it goes on."""
        event()

    def serve(self, method: str, data: bytes) -> asyncio.Task[bytes]:
        assert self.server is not None
        return self.server.serve(method, data)

    def accept(self) -> tuple[Factory, Context]:
        assert self.port is not None and self.port.protocol is not None and self.process is not None
        return self.port.protocol, self.process.context()

    def keep(self, end: VirtualSocket) -> None:
        assert self.process is not None
        self.process.at_death.append(lambda: end.die(tells=True))

    def new_port(self, port: int) -> VirtualPort:
        """The process that runs binds it."""
        self.port = VirtualPort(port)
        return self.port

    def new_server(self) -> VirtualServer:
        """The process that runs asks for one."""
        assert self.process is not None
        self.server = VirtualServer(self.process)
        return self.server

    # --- its processes --------------------------------------------------------------------------

    def start(self) -> None:
        """Unless it runs."""
        self.is_wanted = True
        if self._task is not None:
            return
        self._lives += 1
        self.note("starts")
        self.process = Process(self.site.host_loop, f"{self.name}/{self._lives}", self._power_went)
        self._pace()
        self._task = self.process.start(self._main())
        self._task.add_done_callback(self._ended)

    async def _main(self) -> None:
        await daemon.run(self._config(), self._ready, lambda store, key: ClusterPeers(store, key=key))

    def _ready(self, running: RunningBookie) -> None:
        self.running = running
        self.note("is ready")
        self.why_down = None
        with self.site.host_loop.still():
            self._seen.came_back(self, running)
        self.is_ready.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """However that came."""
        running, self._task, self.running = self.running, None, None
        self.is_ready.clear()
        then, self._then = self._then, None
        if not task.cancelled() and task.exception() is None and running is not None:
            self._ended_well(running)
        if then is not None:  # it was killed or stopped by somebody who knows what comes next
            with suppress(*ENDS, asyncio.CancelledError, Died):
                task.result()
            then()
            return
        try:
            task.result()
            self.site.violated(Violation("start", f"{self.name} has ended, and nobody stopped it"))
        except Died:
            self._power_went()
        except ENDS as error:
            self._met(error)
        except BaseException as error:
            self.site.violated(Violation("errors", f"{self.name} ended with {error!r}"))

    def _ended_well(self, running: RunningBookie) -> None:
        if running.bookie.failed.done():
            self.site.violated(Violation("B1", f"the log of {self.name} has failed, and nobody is told"))

    def _met(self, error: BaseException) -> None:
        """What an operator reads, and does."""
        self.note("ended: %s", error)
        self.why_down = error
        if isinstance(error, DataDirectoryError) and "--accept-loss" in str(error):
            if not self.machine.has_lost:
                self.site.violated(Violation("R6", f"{self.name} is taken for an older copy: {error}"))
            self.accepts_loss = True
        # Also where an operator is at it: he waits until it is ready, and took it down first if he did not want it.
        self.site.world.after(AGAIN_SECONDS, self._start_again)

    def _start_again(self) -> None:
        if self.is_wanted:
            self.start()

    def _start_if_wanted(self) -> None:
        if self.is_wanted and self.is_left_alone.is_set():
            self.start()

    def down(self, then: Callable[[], None], *, kill: bool = True) -> None:
        """Ends the process, if there is one, in order or not; then `then`."""
        self.is_wanted = False
        if self._task is None or self.process is None:
            then()
            return
        before = self._then
        self._then = then if before is None else lambda: (before(), then())  # type: ignore[func-returns-value]
        if self.process.is_dead:
            return
        if kill or signal.SIGTERM not in self.process.signals:
            self._die()
        else:
            self.note("is told to stop")
            self.process.signal(signal.SIGTERM)

    async def went_down(self, *, kill: bool = True) -> None:
        """The same; returns when it has."""
        gone = asyncio.Event()
        self.down(gone.set, kill=kill)
        await gone.wait()

    def _die(self) -> None:
        assert self.process is not None
        self.note("dies")
        self.is_ready.clear()
        self._seen.stores_of(self.process)
        if self.server is not None:
            self.server.cut()
        self.process.die()

    # --- what happens to it ---------------------------------------------------------------------

    def after(self, seconds: float) -> Callable[[], None]:
        """What brings it back."""

        def come_back() -> None:
            self.is_wanted = True
            self.site.world.after(seconds, self._start_if_wanted)

        return come_back

    def cut_power(self, operation: int, loss: str, seconds: float) -> None:
        """Before that change of the disk, whoever makes it."""
        self._loss, self._off_seconds = loss, seconds
        self.machine.disk.power_off_before(operation)

    def _power_went(self) -> None:
        self.note("loses its power")

        def back() -> None:
            self.machine.lose_power(self._loss)
            self.after(self._off_seconds)()

        self.down(back)

    def stand_still(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT."""
        process = self.process
        if process is not None and not process.is_dead:
            self.note("stands still for %s s", seconds)
            process.stand_still()
            self.site.world.after(seconds, process.go_on)

    def slow_down(self, factor: float) -> None:
        self._slowed = factor
        self._pace()

    def _pace(self) -> None:
        if self.process is not None:
            usual = 1.0 if self.site.is_calm else self.site.plan.figures.sync_seconds
            self.process.thread_seconds = usual * THREAD_SECONDS * self._slowed

    def note(self, what: str, *details: object) -> None:
        self.site.world.note(f"{self.name} {what}", *details)

    # --- how it is set up -----------------------------------------------------------------------

    def _config(self) -> BookieConfig:
        accepts_loss, self.accepts_loss = self.accepts_loss, False
        return BookieConfig(
            data_directory=self.machine.directory,
            metadata_uri=f"sim://{self.name}",
            host=self.name,
            port=PORT,
            insecure=True,
            fault_domain=f"rack {int(self.name[1:]) % 3}",
            checkpoint_log_bytes_max=20_000,
            checkpoint_frames_max=30,
            checkpoint_seconds_max=15.0,
            lease_seconds=10.0,
            disk_free_share_min=0.0,
            disk_free_bytes_min=8192,
            disk_reserve_bytes=4096,
            disk_check_seconds=5.0,
            read_threads=2,
            segment_bytes_max=3000,
            accept_loss=accepts_loss,
            upkeep=UpkeepConfig(
                collection_seconds=20.0,
                minor_compaction_seconds=30.0,
                major_compaction_seconds=50.0,
                scrub_seconds=60.0,
                lost_bookie_seconds=30.0,
                open_ledger_grace_seconds=20.0,
                audit_seconds=60.0,
                stock_seconds=60.0,
                reach_seconds=0,
            ),
        )
