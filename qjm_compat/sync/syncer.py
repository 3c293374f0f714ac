"""Runs rounds for a journal. In a round, each acceptor gets the finalized segments that it lacks, one after the other.

Several rounds may run at the same time, in several processes, concurrently with the journal's writer: an acceptor adds
a segment with a single compare-and-swap, after which other processes find the segment there. An interrupted round
leaves at most one unreferenced ledger, and the next round continues where it stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..acceptor.copying import Pace, SegmentContent, SegmentReader
from ..acceptor.programs.sync_programs import SegmentsHeld, SyncOutcome
from ..batch import Batch
from ..errors import JournalError, JournalNotFormatted, RuleViolated, SegmentUnreadable
from ..requests import RemoteEditLog
from .plan import SyncStep, plan

OPEN_SECONDS_MAX = 5.0
"""How long the writer of a segment has to finalize the segment at an acceptor once other acceptors have finalized it.
"""

OPEN_POLL_SECONDS = 0.2
"""How often to check whether the writer has finalized the segment."""

FAILURES_IN_A_ROW_MAX = 10
"""Maximum number of consecutive segments that an acceptor may fail to provide or to add. After that, a round leaves the
acceptor's remaining segments to the next round."""


class SyncedAcceptor(Protocol):
    """An acceptor that can provide finalized segments, and can add those of other acceptors."""

    @property
    def name(self) -> str: ...

    async def segments_held(self) -> SegmentsHeld:
        """Returns the finalized segments. Raises JournalNotFormatted, JournalUnavailable."""
        ...

    async def make_room_for_another(self, epochs_above: int) -> SegmentsHeld:
        """See `sync_programs.make_room_for_another`. Raises StaleEpoch, JournalUnavailable."""
        ...

    async def purged_below(self) -> int:
        """Returns the acceptor's purge limit: segments that ended before this txid were purged. Raises
        JournalUnavailable."""
        ...

    async def take_finalized(
        self,
        wanted: RemoteEditLog,
        source: SegmentReader,
        pace: Pace,
        is_wanted: Callable[[], Awaitable[bool]],
    ) -> SyncOutcome:
        """Adds a segment that another acceptor has finalized. Raises JournalError; if the source cannot be read, this
        is SegmentUnreadable."""
        ...

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        """Reads a segment. Raises SegmentUnreadable."""
        ...


@dataclass(slots=True)
class Synced:
    """The result of a round. `copied` and `finalized` count segments, once for each acceptor; `bytes` is the number of
    bytes copied.

    `problems` require an operator's attention. A later round handles `waits` and `left_open`; the latter are segments
    that their writers may be about to finalize.
    """

    copied: int = 0
    finalized: int = 0
    ops: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    left_open: list[SyncStep] = field(default_factory=list)

    def followed_by(self, later: Synced) -> Synced:
        """Combines two rounds: adds up the work done, and keeps only the remaining work of the later round."""
        return replace(
            later,
            copied=self.copied + later.copied,
            finalized=self.finalized + later.finalized,
            ops=self.ops + later.ops,
            bytes=self.bytes + later.bytes,
        )


class JournalSyncer:
    """Runs rounds for one journal. `targets`: the names of the acceptors to bring up to date; None for all."""

    def __init__(
        self,
        acceptors: Sequence[SyncedAcceptor],
        pace: Pace,
        targets: Collection[str] | None = None,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._acceptors = {one.name: one for one in acceptors}
        self._targets = self._acceptors.keys() if targets is None else targets
        self._pace = pace
        self._on_bytes = on_bytes
        self._open_since: dict[tuple[str, int], float] = {}

    async def round(self) -> Synced:
        """Copies every segment that can be copied. Never raises JournalError: an acceptor's failure is listed in
        `problems`.

        If an acceptor's writer may be about to finalize a segment, leaves the segment to that writer for
        OPEN_SECONDS_MAX.
        """
        done = Synced()
        todo = plan(await self._look(done), self._targets)
        done.problems += todo.violations
        done.waits += todo.waits
        failures: Counter[str] = Counter()
        self._note_open(todo.steps)
        for step in todo.steps:
            if self._is_left(step):
                done.left_open.append(step)
            else:
                await self._do(step, done, failures)
        done.problems += [
            f"acceptor {name} failed {FAILURES_IN_A_ROW_MAX} times in a row: its other segments were not tried"
            for name in failures
            if failures[name] >= FAILURES_IN_A_ROW_MAX
        ]
        return done

    def _note_open(self, steps: Sequence[SyncStep]) -> None:
        now, before = asyncio.get_running_loop().time(), self._open_since
        found = [(step.target, step.log.start_txid) for step in steps if step.is_open]
        self._open_since = {one: before.get(one, now) for one in found}

    def _is_left(self, step: SyncStep) -> bool:
        since = self._open_since.get((step.target, step.log.start_txid))
        return since is not None and asyncio.get_running_loop().time() < since + OPEN_SECONDS_MAX

    async def until_done(self) -> Synced:
        """Runs rounds until no remaining segment is about to be finalized by its writer, or until 2 * OPEN_SECONDS_MAX
        have passed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 2 * OPEN_SECONDS_MAX
        done = await self.round()
        while done.left_open and loop.time() < deadline:
            await asyncio.sleep(OPEN_POLL_SECONDS)
            done = done.followed_by(await self.round())
        done.waits += [f"{step} waits: {SyncOutcome.OPEN.value}" for step in done.left_open]
        return done

    async def _look(self, done: Synced) -> Mapping[str, SegmentsHeld]:
        """Returns the segments of each acceptor. Lists an acceptor that does not answer as a problem."""
        held: dict[str, SegmentsHeld] = {}
        for name, acceptor in self._acceptors.items():
            try:
                held[name] = await acceptor.segments_held()
            except JournalNotFormatted:
                done.problems.append(
                    f"acceptor {name} is not formatted: `bookledger journal format` adds it to the journal"
                )
            except JournalError as error:
                done.problems.append(f"acceptor {name} cannot be read: {error}")
        return held

    async def _do(self, step: SyncStep, done: Synced, failures: Counter[str]) -> None:
        """Performs one step, using the first source that can provide the segment."""
        said: list[str] = []
        for source in step.sources:
            if FAILURES_IN_A_ROW_MAX in (failures[step.target], failures[source]):
                continue
            try:
                taken = await self._taken(step, source, done)
            except RuleViolated as error:
                done.problems.append(f"{step}: {error}")
                return
            except JournalError as error:
                failures[source if isinstance(error, SegmentUnreadable) else step.target] += 1
                said.append(f"from {source}: {error}")
            else:
                failures[source] = failures[step.target] = 0
                _count(step, taken, done)
                return
        if said:
            done.problems.append(f"{step} could not be copied: {'; '.join(said)}")

    async def _taken(self, step: SyncStep, source: str, done: Synced) -> SyncOutcome:
        async def pace(size: int) -> None:
            await self._pace(size)
            self._on_bytes(size)
            copied[0] += size

        copied = [0]
        reader = _SourceAcceptor(self._acceptors[source])
        taken = await self._acceptors[step.target].take_finalized(
            step.log, reader, pace, lambda: self._is_wanted(step.log)
        )
        if taken is SyncOutcome.COPIED:
            done.bytes += copied[0]
        return taken

    async def _is_wanted(self, log: RemoteEditLog) -> bool:
        """Returns whether the segment is still wanted, that is, whether no acceptor has purged it during the copy. All
        acceptors are asked, because the target may have missed a purge."""
        floor = 0
        for acceptor in self._acceptors.values():
            with suppress(JournalError):  # an unavailable acceptor purges nothing in the meantime
                floor = max(floor, await acceptor.purged_below())
        return log.end_txid >= floor


class _SourceAcceptor:
    """An acceptor to read from. Raises its errors as SegmentUnreadable, to distinguish them from the target's."""

    def __init__(self, acceptor: SyncedAcceptor) -> None:
        self.name = acceptor.name
        self._acceptor = acceptor

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        try:
            content = await self._acceptor.read_segment(start_txid, from_txid, in_progress_ok=in_progress_ok)
        except JournalError as error:
            raise SegmentUnreadable(str(error)) from error
        return replace(content, batches=_wrap_read_errors(content.batches))


async def _wrap_read_errors(batches: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
    async with aclosing(batches):
        try:
            async for batch in batches:
                yield batch
        except JournalError as error:
            raise SegmentUnreadable(str(error)) from error


def _count(step: SyncStep, taken: SyncOutcome, done: Synced) -> None:
    if taken is SyncOutcome.COPIED:
        done.copied += 1
        done.ops += step.log.end_txid - step.log.start_txid + 1
    elif taken is SyncOutcome.FINALIZED:
        done.finalized += 1
    elif taken is SyncOutcome.NOT_VOUCHED:
        done.waits.append(f"{step} waits: {taken.value}")
    elif taken is SyncOutcome.OPEN:
        done.left_open.append(step)
