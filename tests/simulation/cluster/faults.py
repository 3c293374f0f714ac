"""What goes wrong in a run, done to hosts, network and store when its time has come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from bookie.log import segment_files
from bookie.log.format import RECORD_HEADER, place_of
from bookie.wire.messages import MaintainRequest, MaintenanceAction
from ledgers.errors import LedgerError
from metadata import keys
from metadata.errors import MetadataError
from tests.bookie.durable_records import known_to_be_synced
from tests.simulation.cores.plans.plan import Cut, Fault, LeaseLost, Pause, StoreAway, WatchGap
from tests.simulation.engine.processes import Process

from . import plan as plans
from .host import Host
from .hosts import Hosts
from .machine import Backup
from .orders import drain, move
from .site import ClusterSite
from .users import User, connected

MAINTAIN_SECONDS_MAX = 30.0
NEWER = b"\x08\x63"
"""A message whose first field, the format's version, is far beyond ours."""


class Faults:
    """Of one run."""

    def __init__(self, site: ClusterSite, hosts: Hosts, users: Mapping[str, User]) -> None:
        self._site = site
        self._hosts = hosts
        self._users = users
        self._backups: dict[int, Backup] = {}
        self._operators = 0
        for fault in site.plan.faults:
            site.world.at(site.world.now + fault.at, lambda f=fault: self._happen(f))  # type: ignore[misc]
            if isinstance(fault, plans.DiskRestored):
                back_up = lambda f=fault: self._back_up(f)  # noqa: E731
                site.world.at(site.world.now + max(0.0, fault.at - fault.age), back_up)

    def _happen(self, fault: Fault) -> None:
        if self._site.is_calm:
            return
        self._site.world.note("%r", fault)
        match fault:
            case Cut():
                self._site.cut(fault)
            case StoreAway():
                self._site.metadata.go_away(fault.seconds, applies=fault.applies)
            case LeaseLost():
                self._site.metadata.lose_lease(fault.bookie)
            case WatchGap():
                self._site.metadata.hold_back(fault.client, fault.seconds)
            case Pause():
                self._pause(fault)
            case plans.NewerRecord():
                self._write_newer(fault.key)
            case plans.KeyLost():
                self._lose_key(keys.bookie(fault.bookie))
            case plans.Leaves():
                self._users[fault.user].leave(in_order=fault.in_order)
            case plans.Maintained():
                self.maintain(self._hosts.by_name[fault.host], MaintenanceAction[fault.what])
            case plans.Drained():
                self._operate(drain(self._site, self._hosts.by_name[fault.host], fault.seconds))
            case plans.Moved():
                self._operate(move(self._site, fault.nth))
            case plans.DiskFault():
                self._harm(fault, self._hosts.by_name[fault.host])
            case plans.HostFault():
                self._interrupt(fault, self._hosts.by_name[fault.host])

    def _pause(self, fault: Pause) -> None:
        host = self._hosts.by_name.get(fault.node)
        if host is not None:
            host.stand_still(fault.seconds)
            return
        process = self._users[fault.node].process
        if not process.is_dead:
            process.stand_still()
            self._site.world.after(fault.seconds, process.go_on)

    def _write_newer(self, key: str) -> None:
        data = self._site.metadata.data
        if data.get(key, self._site.world.now) is None:
            data.create(key, NEWER, None, self._site.world.now)

    def _lose_key(self, key: str) -> None:
        data, now = self._site.metadata.data, self._site.world.now
        found = data.get(key, now)
        if found is not None:
            data.delete(key, found.version, now)

    # --- disks ------------------------------------------------------------------------------------

    def _harm(self, fault: plans.DiskFault, host: Host) -> None:
        machine, world = host.machine, self._site.world
        match fault:
            case plans.SyncFails():
                machine.disk.fail_sync_after(fault.after, OSError(5, "the disk is broken"))
            case plans.DiskFull():
                machine.fill_up(fault.left)
                world.after(fault.seconds, machine.has_room)
            case plans.DiskSlow():
                host.slow_down(fault.factor)
                world.after(fault.seconds, lambda: host.slow_down(1.0))
            case plans.ReadsFail():
                for name, content in machine.disk.contents().items():
                    machine.disk.fail_reads(name, 64, len(content))
                world.after(fault.seconds, machine.disk.mend_reads)
            case plans.Rots():
                self._rot(fault, host)

    def _rot(self, fault: plans.Rots, host: Host) -> None:
        """One byte of a record's header."""
        records = known_to_be_synced(host.machine.disk)
        if not records or not self._may_lose(host):
            return
        position, record = records[fault.nth % len(records)]
        segment, offset = place_of(position)
        name = segment_files.name_of(segment)
        at = offset + fault.nth % RECORD_HEADER.size
        byte = host.machine.disk.durable_bytes(name, at, at + 1)
        host.machine.disk.rot(name, at, bytes([byte[0] ^ 1]))
        host.machine.has_lost = True
        host.note("has lost %s", record.kind)

    def _may_lose(self, host: Host) -> bool:
        """Disks may have been exchanged since the plan said whose is lost, and two are more than a ledger bears."""
        return not any(one.machine.has_lost for one in self._hosts.by_name.values() if one is not host)

    # --- processes --------------------------------------------------------------------------------

    def _interrupt(self, fault: plans.HostFault, host: Host) -> None:
        others = [self._hosts.by_name[fault.other]] if isinstance(fault, plans.DisksExchanged) else []
        if not all(one.is_left_alone.is_set() for one in (host, *others)):
            return  # somebody is putting another disk into it
        match fault:
            case plans.Kill():
                host.down(host.after(fault.seconds))
            case plans.Stop():
                host.down(host.after(fault.seconds), kill=False)
            case plans.PowerCut():
                host.cut_power(fault.operation, fault.loss, fault.seconds)
            case plans.DiskLost():
                if self._may_lose(host):
                    _attend(host)
                    host.down(lambda: self._replace_disk(host, fault.seconds))
            case plans.DiskRestored():
                backup = self._backups.get(id(fault))
                if backup is not None:
                    _attend(host)
                    host.down(lambda: self._restore(host, backup))
            case plans.DisksExchanged():
                other = self._hosts.by_name[fault.other]
                _attend(host, other)
                host.down(lambda: other.down(lambda: self._exchange(host, other)))

    def _replace_disk(self, host: Host, seconds: float) -> None:
        _attend(host)
        host.machine.wipe()
        self._site.world.after(seconds, lambda: self.replace(host))

    def replace(self, host: Host) -> None:
        """An operator formats an empty disk under the old name, and has the bookie take over what it lost."""

        async def work() -> None:
            await self._hosts.format(host, replace=True)
            _leave_alone(host)
            host.start()
            await host.is_ready.wait()
            await self._maintained(host, MaintenanceAction.REPAIR)

        self._operate(work())

    def _back_up(self, fault: plans.DiskRestored) -> None:
        machine = self._hosts.by_name[fault.host].machine
        if not self._site.is_calm and machine.directory.exists():
            self._backups[id(fault)] = machine.backed_up()

    def _restore(self, host: Host, backup: Backup) -> None:
        """Of an earlier life: what a bookie took in the same one and told nobody of, nobody can miss (rule R6)."""

        def bring_back() -> None:
            # Else its disk is in another machine by now, or lost.
            if host.machine.is_mine(backup) and self._may_lose(host):
                host.machine.restore(backup)
            _leave_alone(host)
            host.start()

        async def work() -> None:
            host.start()
            await host.is_ready.wait()
            host.down(bring_back)

        self._operate(work())

    def _exchange(self, host: Host, other: Host) -> None:
        host.machine.exchange(other.machine)
        _leave_alone(host, other)
        host.start()
        other.start()

    # --- operators --------------------------------------------------------------------------------

    def maintain(self, host: Host, action: MaintenanceAction) -> asyncio.Task[None]:
        """Whatever comes of it."""
        return self._operate(self._maintained(host, action))

    def _operate(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._operators += 1
        process = Process(self._site.host_loop, f"o{self._operators}/1", lambda: None)
        task = process.start(work)
        task.add_done_callback(lambda done: done.cancelled() or done.result())
        return task

    async def _maintained(self, host: Host, action: MaintenanceAction) -> None:
        running = host.running
        if running is None:
            return
        client = await connected(self._site, f"o{self._operators}")
        try:
            ref = next(one.bookie for one in await client.list_bookies() if one.address == running.address)
            reply = await client.maintain_bookie(ref, MaintainRequest(action), MAINTAIN_SECONDS_MAX)
            host.note("%s: %s %s", action.name, reply.status.name, reply.detail)
        except (LedgerError, MetadataError, StopIteration) as error:
            host.note("%s: %r", action.name, error)
        finally:
            await client.close()


def _attend(*hosts: Host) -> None:
    """An operator works at them: nothing else happens to them."""
    for host in hosts:
        host.is_left_alone.clear()
        host.machine.disk.heal()


def _leave_alone(*hosts: Host) -> None:
    for host in hosts:
        host.is_left_alone.set()


def newer_keys(seed: int) -> tuple[str, ...]:
    """Where a program of a later version may have written something: a ledger's record, a bookie's registration."""
    return keys.ledger(900_000 + seed % 100), keys.bookie(f"newer{seed % 10}")
