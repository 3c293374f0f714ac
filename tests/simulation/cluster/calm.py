"""The end of a run: everything works again, all come to their end, what was promised is there, nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bookie.wire.messages import MaintenanceAction
from ledgers.aio import LedgerClient, ReadHandle
from metadata import keys
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration, decode
from tests.simulation.engine.processes import PROCESS, HostLoop, Process
from tests.simulation.engine.world import Violation
from tests.simulation.shells.actors import Actor, Setting, where
from tests.simulation.shells.users import read_into
from tests.simulation.shells.watch import WatchedLedger
from tests.simulation.shells.writers import Writer

from .faults import Faults
from .host import Host
from .hosts import Hosts
from .journals import JournalSeen, read_in_the_end
from .orders import late_orders_are_taken_back
from .site import ClusterSite
from .users import User, connected

READY_SECONDS_MAX = 120.0
"""So long after the calm every bookie serves: the slowest start waits for an old lease."""

SETTLE_SECONDS = 40.0
"""So long nothing late is under way any more, and every bookie is registered again."""

LAST_RECOVERY_TRIES = 5
END_SECONDS_MAX = 400.0
"""So long after the calm every application has come to its end."""

DEREGISTERED_SECONDS = 140.0
"""Time for bookies to notice that clients are gone of whom nothing is heard any more."""

WHOLE_SECONDS_MAX = 300.0
WHOLE_LOOK_SECONDS = 5.0
"""So long after that all copies are where they should be: a stock-taking finds what nobody told."""

TIMER_SECONDS_MAX = 1.5
"""What a closed client leaves behind may be a timer that does nothing, soon."""

STOP_SECONDS_MAX = 30.0
"""So long a bookie takes at most to end in order."""


class Calm:
    """Of one run."""

    def __init__(
        self,
        site: ClusterSite,
        hosts: Hosts,
        users: Mapping[str, User],
        faults: Faults,
        setting: Setting,
        journals: Mapping[str, JournalSeen],
    ) -> None:
        self._site = site
        self._hosts = hosts
        self._users = users
        self._faults = faults
        self._setting = setting
        self._journals = journals

    async def comes(self) -> None:
        """Raises Violation."""
        site = self._site
        site.world.note("calm")
        site.is_calm = True
        site.calm()
        site.host_loop.calm()
        site.metadata.calm()
        for host in self._hosts.by_name.values():
            host.machine.has_room()
            host.machine.disk.heal()
            host.slow_down(1.0)
            if host.process is not None and host.process.stands_still:
                host.process.go_on()
        for user in self._users.values():
            if user.process.stands_still:
                user.process.go_on()
        self._setting.calm.set()
        for host in self._hosts.by_name.values():
            await self._serves(host)
        await asyncio.sleep(SETTLE_SECONDS)
        if await late_orders_are_taken_back(site):
            await asyncio.sleep(SETTLE_SECONDS)
        for host in self._hosts.by_name.values():
            self._is_in_order(host)
        await self._everything_is_there()
        for host in self._hosts.by_name.values():
            if host.machine.has_lost:
                await self._is_repaired(host)
        await self._all_come_to_an_end()
        for kind, seen in self._journals.items():
            await read_in_the_end(self._setting, kind, seen)
        await self._all_is_whole()
        await self._every_client_works()
        await self._all_objects_are_named()
        await self._nothing_is_left()

    def _deleted_ones_are_collected(self, host: Host) -> None:
        """B3: a collection has been due a few times."""
        assert host.running is not None
        here = set(host.running.bookie.index.ledger_ids())
        left = [one.ledger_id for one in self._site.watch if one.is_deleted and one.ledger_id in here]
        if left:
            raise Violation("B3", f"{host.name} holds {left}, which were deleted long ago")

    async def _serves(self, host: Host) -> None:
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                await host.is_left_alone.wait()
                host.start()
                await host.is_ready.wait()
        except TimeoutError:
            if not host.machine.has_lost:
                raise Violation("liveness", f"{host.name} does not serve: {host.why_down!r}") from None
            await self._give_up_disk(host)

    def _is_in_order(self, host: Host) -> None:
        """It serves, its log is written, it is registered as writable, and it holds what it had."""
        running, registered = host.running, self._registered(host)
        if running is None:
            raise Violation("liveness", f"{host.name} has ended in calm: {host.why_down!r}")
        if running.bookie.failed.done():
            raise Violation("B1", f"{host.name} goes on after its log has failed")
        if registered is None or registered.address != running.address or not registered.writable:
            raise Violation("M2", f"{host.name} is up, and registered as {registered}")
        with self._site.host_loop.still():
            self._hosts.seen.holds_what_it_had(host, running)

    async def _is_repaired(self, host: Host) -> None:
        """Every ledger is closed, and every entry has a copy somewhere: nothing stays in limbo."""
        await self._faults.maintain(host, MaintenanceAction.REPAIR)
        assert host.running is not None
        left = [
            watched.ledger_id
            for watched in self._site.watch
            if not watched.is_deleted and host.running.bookie.states.peek(watched.ledger_id).limbo
        ]
        if left:
            raise Violation("R6", f"{host.name} was repaired, and ledgers {left} are in limbo")

    def _registered(self, host: Host) -> Registration | None:
        key = keys.bookie(host.machine.directory.name)
        found = self._site.metadata.data.get(key, self._site.world.now)
        return None if found is None else decode(key, found.value)

    async def _give_up_disk(self, host: Host) -> None:
        """What is left of it cannot be used: the operator puts in another."""
        host.note("gives up its disk: %s", host.why_down)
        await host.went_down()
        host.machine.wipe()
        self._faults.replace(host)
        try:
            await asyncio.wait_for(host.is_ready.wait(), READY_SECONDS_MAX)
        except TimeoutError:
            raise Violation(
                "liveness", f"{host.name}, formatted anew, does not serve: {host.why_down!r}"
            ) from None

    # --- what was promised ------------------------------------------------------------------------

    async def _everything_is_there(self) -> None:
        """One more client recovers every ledger, and reads what was confirmed."""
        client = await connected(self._site, "last")
        last = Actor("last", self._setting, client)
        for watched in self._site.watch:
            await self._recover(last, watched)
        await client.close()

    async def _recover(self, last: Actor, watched: WatchedLedger) -> None:
        failure: object = None
        for _ in range(LAST_RECOVERY_TRIES):
            if watched.is_deleted:
                return
            opening = last.client.open_ledger(watched.ledger_id, password=self._setting.password)
            opened = await last.attempt("recover", opening, may_cancel=False)
            if isinstance(opened, ReadHandle):
                await self._read_all(last, watched, opened)
                return
            failure = opened
        raise Violation("liveness", f"ledger {watched.ledger_id} cannot be recovered: {failure!r}")

    async def _read_all(self, last: Actor, watched: WatchedLedger, reader: ReadHandle) -> None:
        watched.ended(last.name, reader.record)
        reading = read_into(last.name, watched, reader.read())
        count = await last.attempt("read all", reading, may_cancel=False)
        if count != watched.last_entry + 1 and not watched.is_deleted:
            raise Violation("I6", f"of {watched.last_entry + 1} entries {count!r} could be read")

    async def _all_is_whole(self) -> None:
        """Every closed ledger has all copies that it should have (W6), within a bounded time."""
        waited, why = 0.0, "never looked"
        while waited < WHOLE_SECONDS_MAX:
            why = self._why_not_whole()
            if not why:
                return
            await asyncio.sleep(WHOLE_LOOK_SECONDS)
            waited += WHOLE_LOOK_SECONDS
        raise Violation("W6", f"{why}, {waited:g} s after everything works again")

    async def _all_objects_are_named(self) -> None:
        """O3: what records have stopped naming goes, and so does what an upload wrote that somebody else gave up."""
        if not self._site.objects:
            return
        client = await connected(self._site, "cleaner")
        await client.remove_unneeded_objects()
        await client.close()
        records = [one.record for one in self._site.watch if not one.is_deleted]
        named = {record.cold.key for record in records if record.cold is not None}
        if left := {name.partition("/")[0] for name in self._site.objects} - named:
            raise Violation("O3", f"nobody needs these objects: {sorted(left)}")

    def _why_not_whole(self) -> str:
        running = {
            BookieRef(one.cookie.bookie_id, one.cookie.incarnation): one
            for host in self._hosts.by_name.values()
            if (one := host.running) is not None
        }
        for watched in self._site.watch:
            is_over = watched.record.is_closed and not watched.is_deleted
            if is_over and (why := self._hosts.seen.not_whole(watched, running)):
                return why
        return ""

    # --- how it ends ------------------------------------------------------------------------------

    async def _all_come_to_an_end(self) -> None:
        playing = {user.playing: user for user in self._users.values()}
        done, left = await asyncio.wait(playing, timeout=END_SECONDS_MAX)
        for task in playing:
            if task in done and not (task.cancelled() and playing[task].has_left):
                task.result()
        if left:
            names = [user.name for task, user in playing.items() if task in left]
            raise Violation("liveness", f"{', '.join(names)} did not come to an end")

    async def _every_client_works(self) -> None:
        """What a client went through has broken nothing of it: it writes a ledger, and another reads that."""
        for user in self._users.values():
            if user.client is not None and not user.has_left:
                await user.process.start(self._works(user, user.client))

    async def _works(self, user: User, client: LedgerClient) -> None:
        await Writer(f"{user.name} again", self._setting, client).write_one_ledger()
        await client.close()

    async def _nothing_is_left(self) -> None:
        """Once all clients are closed nothing of theirs runs, here or at the bookies; then these stop."""
        for user in self._users.values():
            if user.client is not None:
                await user.process.start(user.client.close())
            self._no_task_is_left(user.process)
            self._no_timer_is_left(user.process)
        ours = {user.name for user in self._users.values() if not user.process.is_dead}
        wires = self._hosts.sockets.opened
        if left := [wire for wire in wires if wire.near.is_open and wire.client in ours]:
            raise Violation("leftovers", f"a connection of {left[0].client} was never closed")
        await asyncio.sleep(DEREGISTERED_SECONDS)
        for host in self._hosts.by_name.values():
            self._deleted_ones_are_collected(host)
            self._no_call_is_left(host)
        for host in self._hosts.by_name.values():
            await self._stops(host)
        hosts = self._hosts.by_name
        if any(wire.near.is_open and wire.client in hosts for wire in wires):
            raise Violation("leftovers", "a connection of a bookie was never closed")

    def _no_call_is_left(self, host: Host) -> None:
        """But for what other bookies have open here."""
        assert host.server is not None
        hosts = self._hosts.by_name
        for wire in self._hosts.sockets.opened:
            if wire.host is host and wire.client not in hosts and wire.far.is_open:
                raise Violation("leftovers", f"{host.name} still serves a connection of {wire.client}")
        if host.server.calls:
            raise Violation("leftovers", f"{host.name} still serves {host.server.calls} calls")

    async def _stops(self, host: Host) -> None:
        try:
            await asyncio.wait_for(host.went_down(kill=False), STOP_SECONDS_MAX)
        except TimeoutError:
            raise Violation("liveness", f"{host.name} does not stop: {self._where(host)}") from None
        assert host.process is not None
        self._no_task_is_left(host.process)
        if (registered := self._registered(host)) is not None:
            raise Violation("M2", f"{host.name} has stopped, and is registered as {registered}")

    def _where(self, host: Host) -> list[str]:
        """What its process waits for."""
        assert host.process is not None
        return [where(task) for task in host.process.tasks()]

    def _no_timer_is_left(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HostLoop)
        for timer in loop.pending_timers():
            seconds = timer.when() - loop.time()
            is_its = timer._context.get(PROCESS) is process  # type: ignore[attr-defined]
            if is_its and seconds > TIMER_SECONDS_MAX and "ledgers/" in repr(timer):
                raise Violation("leftovers", f"{process.name} has a timer {seconds:.1f} s ahead: {timer!r}")

    def _no_task_is_left(self, process: Process) -> None:
        left = [task for task in process.tasks() if task is not asyncio.current_task()]
        if left:
            raise Violation("leftovers", f"tasks of {process.name}: {[where(task) for task in left[:3]]}")
