"""A plan becomes processes, faults and a last writer that must succeed."""

from __future__ import annotations

from qjm_compat.config import JournalConfig
from qjm_compat.errors import SegmentUnreadable

from .client import Client
from .disk import Disk
from .ending import Ending
from .network import Daemon, LocalLine, Network, RemoteLine
from .operators import Operator, operators_of
from .plan import DAEMONS, Crash, Pause, Plan, Sync, Writer
from .server import Server
from .site import Host, Site
from .synchronous import Reader as SegmentReader
from .users import JournalReader, JournalWriter

QUORUM_SECONDS = 40.0
SYNC_ROUNDS_MAX = 30


class Cluster:
    """All that one run is made of."""

    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        self.plan = plan
        self.site = Site(plan, tracing=tracing)
        self.network = Network(self.site)
        self.config = JournalConfig(
            queued_edits_bytes_max=plan.figures.queue,
            pipelined_batches_max=3,
            heartbeat_seconds=5.0,
            **{name: QUORUM_SECONDS for name in JournalConfig.__slots__ if name.endswith("_seconds_max")},  # type: ignore[arg-type]
        )
        names = [f"a{n}" for n in range(plan.acceptors)]
        self.disks = [Disk(self.site, name) for name in names]
        self._acquaint()
        self.daemons = [self._daemon(n) for n in range(plan.acceptors)] if plan.form == DAEMONS else []
        self._tags = 0
        self.writers = [
            JournalWriter(self.site, self.site.host(f"w{n}"), wants, self.connect, self.next_tag)
            for n, wants in enumerate(plan.writers)
        ]
        self.readers = [
            JournalReader(self.site, host, wants, self.connect(host), self.reader_of)
            for wants, host in ((w, self.site.host(f"r{n}")) for n, w in enumerate(plan.readers))
        ]

        self.operators: list[Operator] = []

    def run(self) -> None:
        """The whole plan, and its end. Raises Violation."""
        ending = Ending(self)
        ending.begin()
        for writer in self.writers:
            writer.driver.start(writer.wants.at)
        for reader in self.readers:
            reader.driver.start(reader.wants.at)
        self.operators = operators_of(self)
        for fault in self.plan.faults:
            if isinstance(fault, Crash | Pause) and fault.at < self.plan.heals_at:
                self.site.within(self.site.outside, fault.at, self._strike, fault)
        self.site.within(self.site.outside, self.plan.heals_at, self._heal)
        self.site.run()
        ending.check()

    def connect(self, host: Host) -> Client:
        """A manager of this process."""
        if self.plan.form == DAEMONS:
            remote = [RemoteLine(self.site, self.network, host, daemon) for daemon in self.daemons]
            return Client(self.site, host, remote, self.config)
        local = [LocalLine(Server(self.site, host, disk)) for disk in self.disks]
        return Client(self.site, host, local, self.config)

    def reader_of(self, number: int) -> SegmentReader:
        """An acceptor's segments, while it is up."""

        def read(start_txid: int, from_txid: int) -> object:
            if self.daemons and not self.daemons[number].host.is_up:
                raise SegmentUnreadable(f"a{number} is down")
            return self.disks[number].batches(start_txid, from_txid)

        return SegmentReader(f"a{number}", read)

    def next_tag(self) -> int:
        self._tags += 1
        return self._tags

    def writer(self, host: Host, wants: Writer) -> JournalWriter:
        return JournalWriter(self.site, host, wants, self.connect, self.next_tag)

    def lose(self, number: int) -> None:
        """An acceptor's cluster is gone, and there is an empty one in its place."""
        self.disks[number].lose()
        self.disks[number] = Disk(self.site, self.disks[number].name)
        self._acquaint()
        for daemon in self.daemons[number : number + 1]:
            if daemon.host.is_up:
                daemon.host.crash()
            self.site.within(self.site.outside, 1.0, self._come_up, daemon)

    def _acquaint(self) -> None:
        for disk in self.disks:
            disk.peers = {one.name: one for one in self.disks}

    def _daemon(self, number: int) -> Daemon:
        host = self.site.host(f"a{number}")
        return Daemon(self.site, host, lambda: Server(self.site, host, self.disks[number]))

    # --- faults -------------------------------------------------------------------------------------

    def _strike(self, fault: Crash | Pause) -> None:
        host = self.site.hosts.get(fault.host)
        if host is None or not host.is_up:
            return
        self.site.note("%r", fault)
        if isinstance(fault, Pause):
            host.paused_until = max(host.paused_until, self.site.now + fault.seconds)
            return
        host.crash()
        for daemon in self.daemons:
            if daemon.host is host:
                self.site.within(self.site.outside, fault.down, self._come_up, daemon)

    def _come_up(self, daemon: Daemon) -> None:
        if not daemon.host.is_up:
            daemon.come_up()

    def _heal(self) -> None:
        """Nothing goes wrong any more, and nobody but the last writer tries again."""
        self.site.note("all is well")
        self.site.is_calm = True
        for host in self.site.hosts.values():
            host.paused_until = 0.0
        for daemon in self.daemons:
            self._come_up(daemon)
        for writer in self.writers:
            writer.is_retired = True

    def sync_meanwhile(self) -> None:
        """Somebody brings acceptors up to date while the journal is discarded, upgraded or formatted."""
        if self.plan.syncs:
            self._sync("sm", Sync(0.0, rounds=6, every=1.0))

    def sync_to_the_end(self) -> Operator:
        """Somebody brings acceptors up to date until nothing is left to do."""
        return self._sync(f"se{len(self.operators)}", Sync(0.0, rounds=SYNC_ROUNDS_MAX), until_whole=True)

    def _sync(self, name: str, wants: Sync, *, until_whole: bool = False) -> Operator:
        operator = Operator(self, self.site.host(name), 0.0)
        operator.start(operator.syncs(wants, until_whole=until_whole))
        self.operators.append(operator)
        return operator

    def stop_users(self) -> None:
        """Nobody uses the journal any more."""
        hosts = [w.host for w in self.writers] + [r.host for r in self.readers]
        for host in (*hosts, *(o.host for o in self.operators)):
            host.crash()
