"""What goes wrong: one or two things at a time, none of which an ack quorum does not bear."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Awaitable, Callable
from random import Random

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from bookie.errors import DataDirectoryError
from bookie.serving.directory import format_directory
from bookledger.cli.processes import BookieProcess
from metadata import opened_store
from tests.support.etcd_cluster import EtcdCluster, Member

from .history import History
from .hosts import Host

PERIOD_SECONDS_MAX = 6.0
DOWN_SECONDS_MAX = 8.0
HUNG_SECONDS_MAX = 6.0
CUT_SECONDS_MAX = 6.0
FULL_SECONDS_MAX = 10.0
FORMAT_TRIES = 10
"""An etcd that is restarted gives a dead bookie's lease its whole time again, each time."""

WIPE_TRIES = 60
WIPE_AGAIN_SECONDS = 0.3


class Faults:
    """Harms bookies and etcd until it is told to stop. A disk is lost only while nothing else is missing."""

    def __init__(
        self,
        uri: str,
        hosts: list[Host],
        etcd: EtcdCluster | None,
        history: History,
        random: Random,
        may_lose_a_disk: Callable[[], Awaitable[bool]],
    ) -> None:
        self._uri = uri
        self._hosts = hosts
        self._etcd = etcd
        self._history = history
        self._random = random
        self._may_lose_a_disk = may_lose_a_disk
        self._harmed: set[str] = set()
        self._under_way: set[asyncio.Future[None]] = set()
        self._members_down: set[str] = set()

    async def go_on_for_ever(self) -> None:
        """Until it is cancelled."""
        kinds = [self._kill, self._kill, self._stop, self._hang, self._slow, self._wipe, self._etcd_goes]
        kinds += [self._members_go, self._members_go, self._member_hangs]
        kinds += [self._cut, self._lose_answers, self._slow_way, self._fill_disk]
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._random.uniform(0.5, PERIOD_SECONDS_MAX))
                free = [one for one in self._hosts if one.bookie.bookie_id not in self._harmed]
                # With two of five away every ledger keeps one bookie, and new ones find three.
                if len(self._harmed) < 2:
                    group.create_task(self._harm(self._random.choice(kinds), self._random.choice(free)))

    async def _harm(self, fault: Callable[[Host], Awaitable[None]], host: Host) -> None:
        name = host.bookie.bookie_id
        self._harmed.add(name)
        harming = asyncio.ensure_future(fault(host))
        self._under_way.add(harming)
        harming.add_done_callback(self._under_way.discard)
        harming.add_done_callback(lambda _: self._harmed.discard(name))
        await asyncio.shield(harming)

    async def come_to_an_end(self) -> None:
        """What was under way when it was cancelled; everything runs again then."""
        await asyncio.gather(*self._under_way)

    def _note(self, kind: str) -> None:
        self._history.faults[kind] += 1

    async def _kill(self, host: Host) -> None:
        bookie = host.bookie
        self._note("kill -9")
        bookie.kill()
        await asyncio.sleep(self._random.uniform(0, DOWN_SECONDS_MAX))
        await asyncio.to_thread(bookie.start)

    async def _stop(self, host: Host) -> None:
        bookie = host.bookie
        self._note("stopped in order")
        await asyncio.to_thread(bookie.stop)
        await asyncio.to_thread(bookie.start)

    async def _hang(self, host: Host) -> None:
        bookie = host.bookie
        self._note("hung")
        bookie.child.signal(signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0, HUNG_SECONDS_MAX))
        bookie.child.signal(signal.SIGCONT)

    async def _slow(self, host: Host) -> None:
        bookie = host.bookie
        self._note("slow")
        for _ in range(self._random.randint(5, 25)):
            bookie.child.signal(signal.SIGSTOP)
            await asyncio.sleep(0.15)
            bookie.child.signal(signal.SIGCONT)
            await asyncio.sleep(0.05)

    async def _wipe(self, host: Host) -> None:
        bookie = host.bookie
        for _ in range(WIPE_TRIES):
            if len(self._harmed) == 1 and await self._may_lose_a_disk():
                break
            await asyncio.sleep(WIPE_AGAIN_SECONDS)
        else:
            return  # a second copy may be missing all the time
        self._note("disk lost")
        bookie.kill()
        shutil.rmtree(bookie.directory)
        async for attempt in AsyncRetrying(  # as an operator does who is told to try again then
            retry=retry_if_exception_type(DataDirectoryError),
            stop=stop_after_attempt(FORMAT_TRIES),
            reraise=True,
        ):
            with attempt:
                await self._format(bookie)
        await asyncio.to_thread(bookie.start)

    async def _format(self, bookie: BookieProcess) -> None:
        async with opened_store(self._uri) as store:
            await format_directory(bookie.directory, bookie.bookie_id, store, replace=True, wait=True)

    async def _etcd_goes(self, _: Host) -> None:
        """All of it at once, as a power cut does."""
        await self._lose_members("etcd killed", 3)

    async def _members_go(self, _: Host) -> None:
        """One, or a majority."""
        count = self._random.choice((1, 1, 2))
        await self._lose_members(f"{count} of etcd's members killed", count)

    async def _lose_members(self, what: str, count: int) -> None:
        chosen = self._choose_members(count)
        if not chosen:
            return
        self._note(what)
        for one in chosen:
            one.kill()
        await asyncio.sleep(self._random.uniform(0, 3))
        assert self._etcd is not None
        for one in chosen:
            self._etcd.relaunch(one)
        await asyncio.to_thread(self._etcd.await_all, chosen)
        self._members_down -= {one.name for one in chosen}

    async def _member_hangs(self, _: Host) -> None:
        for one in self._choose_members(1):
            self._note("one of etcd's members hung")
            one.hang()
            await asyncio.sleep(self._random.uniform(0, HUNG_SECONDS_MAX))
            one.go_on()
            self._members_down -= {one.name}

    def _choose_members(self, count: int) -> list[Member]:
        """So many of etcd's members, which are down from now on; none unless all are up."""
        if self._etcd is None or self._members_down:
            return []
        chosen = self._random.sample(self._etcd.members, count)
        self._members_down = {one.name for one in chosen}
        return chosen

    async def _cut(self, host: Host) -> None:
        assert host.proxy is not None
        self._note("cut off")
        host.proxy.cut()
        await self._until_forwarded(host)

    async def _lose_answers(self, host: Host) -> None:
        assert host.proxy is not None
        self._note("answers lost")
        host.proxy.drop_replies()
        await self._until_forwarded(host)

    async def _slow_way(self, host: Host) -> None:
        assert host.proxy is not None
        self._note("slow way")
        host.proxy.slow()
        await self._until_forwarded(host)

    async def _until_forwarded(self, host: Host) -> None:
        assert host.proxy is not None
        await asyncio.sleep(self._random.uniform(0, CUT_SECONDS_MAX))
        host.proxy.forward()

    async def _fill_disk(self, drawn: Host) -> None:
        """Of the one that has a small disk, unless something else is amiss there."""
        host = next((one for one in self._hosts if one.small_disk is not None), None)
        if host is None or host.bookie.bookie_id in self._harmed - {drawn.bookie.bookie_id}:
            return
        name = host.bookie.bookie_id
        self._harmed.add(name)
        self._note("disk full")
        await asyncio.to_thread(host.fill)
        await asyncio.sleep(self._random.uniform(0, FULL_SECONDS_MAX))
        host.make_room()
        self._harmed.discard(name)
