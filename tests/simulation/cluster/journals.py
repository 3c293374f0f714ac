"""Users of a journal: writers that take it over from each other, and readers, through the real manager and acceptors.

J1 to J6 are checked from outside: an epoch is had once; what was acknowledged or seen never becomes something else, is
behind every later recovery's back, and is there in the end; segments follow each other without a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

from ledgers import LedgerError
from qjm_compat import AcceptorConfig, JournalConfig, JournalError, NamespaceInfo
from qjm_compat.aio import QuorumJournalManager
from tests.simulation.engine.world import Violation
from tests.simulation.journals.checks import Checks
from tests.simulation.journals.edits import edits_in, frames
from tests.simulation.shells.actors import (
    OPERATION_SECONDS_MAX,
    PAUSE_SECONDS_MAX,
    Setting,
    cancelled_after,
    until_over,
)

from .config import draw_config

T = TypeVar("T")

JOURNALS = {"writes journal": ("one", 1), "writes journal at three": ("three", 3)}
READS = {"reads journal": "writes journal", "reads journal at three": "writes journal at three"}
"""What users do, and at which journal of how many acceptors."""

NAMESPACE = NamespaceInfo(4711, "a cluster", "a pool", 0, -66)
SECONDS_MAX = 10.0
LAST_TRIES = 5
TAGS = 250


class JournalSeen(Checks):
    """What is known of one journal from outside. `tags`: how many have become its writer."""

    def __init__(self, does: str) -> None:
        super().__init__(JOURNALS[does][1])
        self.tags = 0


class JournalUser:
    """An application with managers of its own, one after the other."""

    def __init__(self, name: str, setting: Setting, does: str, seen: JournalSeen) -> None:
        self.name = name
        self.setting = setting
        self.seen = seen
        self.has_left = False
        self.chance = setting.site.world.stream(name)
        self._does = does

    async def run(self) -> None:
        """Until it has done what it wanted to, whatever goes wrong."""
        for _ in range(2 + self.chance.below(4)):
            if self.has_left:
                return
            try:
                await self.once()
            except (JournalError, LedgerError) as error:
                self.note("failed: %s", error)
            await asyncio.sleep(self.chance.unit() ** 2 * PAUSE_SECONDS_MAX)

    async def once(self) -> None:
        raise NotImplementedError

    def note(self, what: str, *details: object) -> None:
        self.setting.site.world.note(f"{self.name} {what}", *details)

    def manager(self) -> QuorumJournalManager:
        journal_id, acceptors = JOURNALS[self._does]
        uri = f"sim://{self.name}"
        several = tuple(AcceptorConfig(f"a{n}", uri) for n in range(acceptors)) if acceptors > 1 else None
        return QuorumJournalManager(
            uri,
            journal_id,
            namespace=NAMESPACE,
            acceptors=several,
            config=self._config(),
            client_config=draw_config(self.setting.site.world.stream("config", self.name)),
        )

    async def within(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        """It must end, well or not, and may be cancelled in the middle; then the manager is of no more use."""
        task = asyncio.create_task(work)
        is_cancelled = self.chance.happens(self.setting.cancels_share / 3)
        patience = cancelled_after(self.chance) if is_cancelled else None
        await until_over(f"{self.name}: {what}", task, patience, OPERATION_SECONDS_MAX)
        if task.cancelled():
            raise JournalError(f"{what} was cancelled")
        return task.result()

    def _config(self) -> JournalConfig:
        new = self.setting.new_ledger
        bounds: dict[str, Any] = {
            name: SECONDS_MAX for name in JournalConfig.__slots__ if name.endswith("_seconds_max")
        }
        return JournalConfig(
            ensemble_size=new.ensemble_size,
            write_quorum=new.write_quorum,
            ack_quorum=new.ack_quorum,
            digest=new.digest,
            password=new.password,
            **bounds,
        )


class JournalWriter(JournalUser):
    """Becomes the writer, ends what the last one left, and writes a few segments, one of them perhaps half."""

    async def once(self) -> None:
        async with self.manager() as manager:
            next_txid = await self._take_over(manager)
            self.seen.tags += 1
            for _ in range(1 + self.chance.below(3)):
                next_txid = await self._segment(manager, next_txid)

    async def _take_over(self, manager: QuorumJournalManager) -> int:
        epoch_before = self.seen.last_epoch
        await self.within("recover", manager.recover_unfinalized_segments())
        assert manager.epoch is not None
        self.seen.became_writer(manager.epoch, epoch_before)
        end = await self._end(manager)
        self.note("epoch %s goes on behind %s", manager.epoch, end)
        self.seen.recovered(manager.epoch, end)
        return end + 1

    async def _end(self, manager: QuorumJournalManager) -> int:
        """Where the journal ends; its segments follow each other (J5)."""
        end = 0
        for stream in await self.within("select", manager.select_input_streams(0)):
            if stream.first_txid != end + 1:
                raise Violation("J5", f"between {end} and {stream.first_txid} there is nothing")
            end = stream.last_txid
        return end

    async def _segment(self, manager: QuorumJournalManager, first_txid: int) -> int:
        stream = await self.within("start", manager.start_log_segment(first_txid))
        next_txid = first_txid
        for _ in range(1 + self.chance.below(4)):
            count = 1 + self.chance.below(3)
            records = frames(self.seen.tags % TAGS, next_txid, count)
            stream.write_raw(records, count)
            stream.set_ready_to_flush()
            committed = await self.within("flush", stream.flush())
            self.note("has %s to %s", next_txid, next_txid + count - 1)
            if committed < next_txid + count - 1:
                raise Violation("flush", f"{self.name}: a flush returned {committed} before all was there")
            assert manager.epoch is not None
            self.seen.acknowledged(manager.epoch, first_txid, next_txid, records)
            next_txid += count
            await asyncio.sleep(self.chance.unit() ** 2 * PAUSE_SECONDS_MAX)
        if self.chance.happens(0.3):
            raise JournalError("it leaves its segment open")
        await stream.close()
        await self.within("finalize", manager.finalize_log_segment(first_txid, next_txid - 1))
        return next_txid


class JournalReader(JournalUser):
    """A standby: looks at everything there is, or at the latest."""

    async def once(self) -> None:
        async with self.manager() as manager:
            for _ in range(1 + self.chance.below(4)):
                if self.chance.happens(0.5):
                    await self.within("read", self.look(manager))
                else:
                    await self.within("tail", self._tail(manager))
                await asyncio.sleep(self.chance.unit() * PAUSE_SECONDS_MAX)

    async def look(self, manager: QuorumJournalManager) -> dict[int, bytes]:
        """Everything there is."""
        found: dict[int, bytes] = {}
        for stream in await manager.select_input_streams(0, in_progress_ok=True):
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    self.seen.saw(0, batch.first_txid, bytes(batch.records))
                    found.update(edits_in(batch.first_txid, bytes(batch.records)))
        return found

    async def _tail(self, manager: QuorumJournalManager) -> None:
        first = 1 + self.chance.below(max(self.seen.known.acked, default=0) + 1)
        batch = await manager.journaled_edits(first)
        if batch is not None:
            self.seen.saw(0, batch.first_txid, bytes(batch.records))


async def format_journals(setting: Setting, does: Iterable[str]) -> None:
    """Before anything goes wrong."""
    for kind in sorted(does):
        user = JournalUser("operator", setting, kind, JournalSeen(kind))
        async with user.manager() as manager:
            await manager.format(NAMESPACE)


async def read_in_the_end(setting: Setting, kind: str, seen: JournalSeen) -> None:
    """One more writer takes it over, and reads what was acknowledged or seen."""
    failure: object = None
    for n in range(LAST_TRIES):
        writer = JournalWriter(f"last{n}", setting, kind, seen)
        writer.within = _uncancelled(writer)  # type: ignore[method-assign]
        try:
            async with writer.manager() as manager:
                await writer._take_over(manager)
                reader = JournalReader(f"last{n}", setting, kind, seen)
                seen.all_there(await reader.look(manager))
                return
        except (JournalError, LedgerError) as error:
            failure = error
    raise Violation("liveness", f"{kind}: cannot be taken over: {failure!r}")


def _uncancelled(writer: JournalUser) -> Any:
    async def within(what: str, work: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(OPERATION_SECONDS_MAX):
            return await work

    del writer
    return within
