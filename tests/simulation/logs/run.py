"""One plan, run: everybody acts and everything fails, then calm; then what must hold is looked at."""

from __future__ import annotations

import asyncio
import gc
from bisect import bisect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ledgers.logs.errors import NoSuchPosition
from ledgers.logs.log import Log
from ledgers.logs.record_batch import Record
from ledgers.logs.writing.log_writer import LogWriter
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.retention import Retention
from tests.simulation.engine.loop import LoopStuck, VirtualLoop, owned_by, run
from tests.simulation.engine.runs import Failed, Outcome, warnings_are
from tests.simulation.engine.world import Violation

from . import plan as plans
from .actors import Keeper, LogReaderUser, LogWriterUser
from .forking import ForkUser, forks_in_the_end
from .going_back import GoingBack
from .keeping import AuditorUser, BookieClocks, ConsumerUser
from .leading import LeaderUser
from .ledgers import Ledger
from .plan import Plan
from .producers import ProducerUser
from .sharing import SharingRun
from .site import FIRST_NAME, Client, LogSite, in_virtual_time
from .stuck import StuckRun

CALM_SECONDS = plans.FAULTY_SECONDS + 15.0
"""From here on everything works."""

SETTLE_SECONDS = 40.0
"""So long after that nothing late is under way, and every change has been settled or given up."""

END_SECONDS_MAX = 400.0

LAST_ROUNDS_SECONDS = 5.0

PACE_SECONDS_TOLD_MAX = 0.01
"""With messages as fast bookies tell what is confirmed soon enough for whoever asks for it elsewhere."""

TRIES_MAX = 6
PROBLEMS_SHOWN_MAX = 3


def play(plan: Plan, tracing: bool = True) -> Outcome:
    """Raises Failed with the end of the trace."""
    loop = VirtualLoop()
    site = LogSite(plan, loop, tracing=tracing)
    why: BaseException | None = None
    with warnings_are(loop.problems):
        try:
            run(LogRun(site).run, loop)
        except (Violation, LoopStuck) as violation:
            why = violation
        except Exception as error:  # a fault of the product, or of this harness
            why = error
        trace, probes = site.world.trace, frozenset(site.world.probes)
        confirmed = len(site.truth.confirmed)
        why = site.truth.violation or why
        del site
        gc.collect(0)
    if why is None and loop.problems:
        why = Violation("problems", "; ".join(loop.problems[:PROBLEMS_SHOWN_MAX]))
    if why is not None:
        raise Failed(plan, why, trace)
    return Outcome(plan, tuple(trace), probes, f"{confirmed} confirmed, no violation")


class LogRun:
    """Wires everybody to the site, and ends the run."""

    def __init__(self, site: LogSite) -> None:
        self.site = site
        self.plan = site.plan
        self.world = site.world
        self._acting: list[asyncio.Task[None]] = []
        self._sharing: SharingRun | None = None
        self._went_back: GoingBack | None = None

    async def run(self) -> None:
        with in_virtual_time(self.site):
            maker = self.site.client("maker").logs
            made = await maker.create(FIRST_NAME, self.site.settings, b"", _retention(self.plan.keeping))
            self.site.identity = made.record.identity
            if self.plan.sharing is not None:
                self._sharing = SharingRun(self.site, self.plan.sharing)
                await self._sharing.create(self.site.client("set-maker"))
            self.site.expect_weather(self.plan.figures, ())
            if self.plan.keeping is not None or self.plan.clocks is not None:
                self.site.bookie_clocks = BookieClocks(self.site)
            self._begin()
            await asyncio.sleep(CALM_SECONDS)
            self._calm()
            await asyncio.sleep(SETTLE_SECONDS)
            await self._end()

    # --- while it lasts ---------------------------------------------------------------------------

    def _begin(self) -> None:
        for n, writer in enumerate(self.plan.writers):
            user = ProducerUser if writer.once else LeaderUser if writer.leads else LogWriterUser
            self._act(f"w{n}", user(self.site, f"w{n}", writer).run)
        for n, reader in enumerate(self.plan.readers):
            self._act(f"r{n}", LogReaderUser(self.site, f"r{n}", reader).run)
        if self.plan.keeping is not None:
            self._begin_keeping(self.plan.keeping)
        for n, order in enumerate(self.plan.forking.orders if self.plan.forking else ()):
            self._act(f"f{n}", ForkUser(self.site, f"f{n}", order).run)
        for name, acting in self._sharing.actors() if self._sharing else ():
            self._act(name, lambda acting=acting: acting)  # type: ignore[misc]
        for n, event in enumerate(self.plan.events):
            keeper = Keeper(self.site, f"k{n}")
            self.world.at(event.at, lambda event=event, keeper=keeper: self._happen(event, keeper))  # type: ignore[misc]
            if isinstance(event, plans.GoesBack):
                self._went_back = GoingBack(self.site, event)
                self.world.at(event.at - event.copy_seconds, self._went_back.copy)

    def _begin_keeping(self, keeping: plans.Keeping) -> None:
        for n, consumer in enumerate(keeping.consumers):
            self._act(f"c{n}", ConsumerUser(self.site, f"c{n}", consumer).run)
        for n, auditor in enumerate(keeping.auditors):
            self._act(f"a{n}", AuditorUser(self.site, f"a{n}", auditor).run)

    def _act(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._acting.append(self.site.loop.create_task(work(), context=owned_by(f"actor {name}")))

    def _happen(self, event: plans.Fault, keeper: Keeper) -> None:
        self.world.note("%s", event)
        match event:
            case plans.FailLedgers():
                self.site.ledgers.fail_all()
            case plans.NoBookies(_, seconds):
                self.site.ledgers.no_bookies_until = self.world.now + seconds
            case plans.ClockStep(_, seconds):
                self.site.step_clock(seconds)
            case plans.MachineClockStep(_, machine, seconds):
                self.site.step_clock(seconds, machine)
            case plans.BookieClockStep(_, seconds):
                if self.site.bookie_clocks is not None:
                    self.site.bookie_clocks.steps[0] += seconds
            case plans.StoreAway(_, seconds, applies):
                self.site.store.go_away(seconds, applies=applies)
            case plans.Cut():
                self.site.cut(event)
            case plans.GoesBack() if self._went_back is not None:
                self._went_back.put_back()
                self._act("operator", self._went_back.accept)
            case _:
                self._act(keeper.name, lambda: _kept(event, keeper))

    def _calm(self) -> None:
        self.world.note("calm")
        self.site.calm()
        self.site.store.calm()
        self.site.ledgers.no_bookies_until = 0.0

    # --- what must hold in the end -------------------------------------------------------------------

    async def _end(self) -> None:
        last = self.site.client("last")
        log = await last.logs.open(self.site.log_name(), b"")
        if self.site.doubts:
            if log.record.last is not None:
                await last.calls.open_ledger(log.record.last.ledger_id)
            await self._confirmed_is_read(log)
            await self._come_to_an_end(0)
            return
        await self._what_should_go_is_gone(log)
        await self._one_more_term(log)
        logs = [log] if self._sharing is None else [log, *await self._shared(self._sharing)]
        end = await log.end()
        await self._come_to_an_end(end)
        records = [record async for record in log.read()]
        self.site.truth.all_read(records)
        self.site.truth.sequences_rise(records)
        self.site.clock_truth.check(records, self.site.segments())
        await self._times_lead_to_positions(log, end)
        if self._went_back is not None:
            await log.set_legal_hold(False)  # one that an operator ended since the copy is back
        if self.plan.forking is not None:
            logs = [*logs, *await forks_in_the_end(self.site, last, self.plan.forking)]
        await self._nothing_unneeded_is_left(logs, last)
        if self.plan.forking is not None:
            await self._nothing_is_left_of(logs, last)
        for client in self.site.clients:
            await client.close()
        self._no_task_is_left()

    async def _confirmed_is_read(self, log: Log) -> None:
        """Position by position: an operator was told that a part of the log may be missing."""
        first = (await log.refresh()).first_position
        for position in sorted(self.site.truth.confirmed):
            if position >= first:
                async for record in log.read(position, position + 1):
                    self.site.truth.read(record, "last")

    async def _shared(self, sharing: SharingRun) -> Sequence[Log]:
        """The logs of the set; all of them were used, also after the trouble that the plan has."""
        logs, plan, truth = await sharing.end(), self.plan.sharing, self.site.shared_truth
        if plan is not None and plan.trouble and truth is not None:
            await StuckRun(self.site, truth, plan.start).meet(plan.trouble, logs)
        return logs

    async def _what_should_go_is_gone(self, log: Log) -> None:
        """Whoever did it died or not: one more auditor does what is left."""
        if self.plan.keeping is None:
            return
        auditor = AuditorUser(self.site, "a-last", plans.Auditor(0.0, LAST_ROUNDS_SECONDS))
        await auditor.run()
        record = await log.refresh()
        if not self.site.kept_truth.is_all_done(record, LAST_ROUNDS_SECONDS):
            raise Violation(
                "liveness", f"what has been too old for long is left from {record.first_position} on"
            )

    async def _one_more_term(self, log: Log) -> None:
        if self.plan.one_end is not None:
            await self._ends_are_told(log)
        await (await self._appended(log, b"last")).close()

    async def _appended(self, log: Log, payload: bytes) -> LogWriter:
        asked_from, name = self.world.now, payload.decode()
        writer = await log.writer(name)
        self.site.clock_truth.took_over(writer.epoch, asked_from)
        self.site.clock_truth.appended([payload])
        self.site.truth.begun(writer.epoch, writer.next_position)
        position = await writer.append(payload)
        self.site.truth.confirm(writer.epoch, position, payload, name)
        return writer

    async def _ends_are_told(self, log: Log) -> None:
        """What one client has confirmed is waited for by another one; and with a client its writers are closed."""
        client = self.site.client("left-open")
        mine = await client.logs.open(self.site.log_name(), b"")
        writer = await self._appended(mine, b"left-open")
        end = writer.confirmed_end
        if self.plan.pace_seconds <= PACE_SECONDS_TOLD_MAX:
            try:
                await (await log.cursor("elsewhere", start=end)).close()
            except NoSuchPosition as error:
                raise Violation("L4", f"confirmed elsewhere up to {end}: {error}") from error
        await client.close()
        if (seen := await log.end()) < end:
            raise Violation(
                "L4", f"a client is closed that has confirmed all before {end}, and the end is {seen}"
            )

    async def _come_to_an_end(self, end: int) -> None:
        """Writers are done, and every reader has come to the end."""
        readers = list(self._acting)
        self.site.is_over = True
        _, left = await asyncio.wait(readers, timeout=END_SECONDS_MAX)
        for task in readers:
            if task not in left:
                task.result()
        if left:
            raise Violation("liveness", f"does not come to an end: {sorted(map(str, left))[:2]}")

    async def _times_lead_to_positions(self, log: Log, end: int) -> None:
        """Segments that were made again end when their ledgers were closed: not too early where clocks do not step."""
        is_about = self._went_back is not None
        steps = any(isinstance(event, plans.ClockStep) for event in self.plan.events)
        records: list[Record] = [record async for record in log.read()]
        ends = {s.first_position: s.ended_us for s in self.site.segments()}
        starts = sorted(ends)
        ordered = [(r.position, min(r.time, ends[starts[bisect(starts, r.position) - 1]])) for r in records]
        if is_about and not steps:
            ordered = [(r.position, r.time) for r in records]
        reader = log._reader
        for wanted in sorted({0, *(r.time for r in records), *(r.time + 1 for r in records)})[:12]:
            found = await reader.position_at(wanted)
            right = next((p for p, us in ordered if us >= wanted), end)
            if found > right or (found < right and not is_about):
                raise Violation("times", f"time {wanted} leads to {found}, and not to {right}")

    async def _nothing_unneeded_is_left(self, logs: Sequence[Log], last: Client) -> None:
        """What was given up, and what dead writers made, is deleted once somebody takes over and an audit is made."""
        for _ in range(TRIES_MAX):
            await asyncio.sleep(SETTLE_SECONDS)
            await last.sweep()
            needed = {segment.ledger_id for log in logs async for segment in log.segments()}
            left = {
                one.ledger_id
                for one in self.site.ledgers.left()
                if one.ledger_id in needed or not self._may_be_left(one, logs[0])
            }
            if needed == left:
                return
        raise Violation("leftovers", f"ledgers {left} are left, and the logs need {needed}")

    async def _nothing_is_left_of(self, logs: Sequence[Log], last: Client) -> None:
        """One log after the other is deleted, and those that are left have all that they had."""
        assert self.plan.forking is not None
        log, *forks = logs
        there = {segment.ledger_id for one in logs async for segment in one.segments()}
        self.site.truth.is_given_up = True
        in_order = [log, *forks] if self.plan.forking.deleted_first else [*forks, log]
        for n, one in enumerate(in_order):
            await last.logs.delete(one.name, b"")
            for other in in_order[n + 1 :]:
                if other is not log:
                    await self.site.fork_truth.check(other)
        left = [one.ledger_id for one in self.site.ledgers.left() if one.ledger_id in there]
        named = [
            one.name for one in self.site.fork_truth.logs() if one.forks or (one.segments and not one.deleted)
        ]
        if left or named:
            raise Violation(
                "leftovers", f"ledgers {left}, and records of {named}, are left of logs that are deleted"
            )

    def _may_be_left(self, ledger: Ledger, log: Log) -> bool:
        """The metadata went back, and the log has not come to the epoch again under which this was made for nothing."""
        said = segment_of(ledger.record.custom_metadata)
        if said is not None and said.identity != log.record.identity and self._is_forgotten(said.identity):
            return True
        is_named = any(one.ledger_id == ledger.ledger_id for one in self.site.segments())
        return (
            self._went_back is not None
            and not is_named
            and said is not None
            and said.epoch >= log.record.epoch
        )

    def _is_forgotten(self, identity: bytes) -> bool:
        """Somebody deleted this fork: what a dead writer made for it stays, for whoever restores the metadata."""
        has_forks = self.plan.forking is not None
        return has_forks and identity not in {one.identity for one in self.site.fork_truth.logs()}

    def _no_task_is_left(self) -> None:
        for client in self.site.clients:
            left = self.site.loop.running_tasks(client.name)
            if left:
                raise Violation("leftovers", f"tasks of {client.name}: {left[:2]}")


def _retention(keeping: plans.Keeping | None) -> Retention:
    if keeping is None:
        return Retention()
    return Retention(keeping.age_seconds, keeping.bytes, keeping.cursors, keeping.cursor_silent_seconds)


async def _kept(event: plans.Fault, keeper: Keeper) -> None:
    match event:
        case plans.Truncate(_, share):
            await keeper.truncate(share)
        case plans.Hold(_, seconds):
            await keeper.hold(seconds)
        case plans.Rename(_, contested):
            await keeper.rename(contested)
        case plans.Sweep():
            await keeper.sweep()
        case plans.RecoverAside():
            await keeper.recover_aside()
