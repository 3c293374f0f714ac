"""Tails a journal: yields edits as they reach the disks of a quorum."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ..acceptor.copying import checked_part
from ..batch import Batch
from ..config import JournalConfig
from ..edits import EditOp
from ..errors import EditsMissing, EditsNotCached, JournalError, NewerTxid, QuorumFailed, QuorumTimeout
from ..requests import GetJournaledEdits, JournaledEdits
from .input_stream import EditLogInputStream, decoded
from .loggers import LoggerSet
from .proposer_effects import Answers, Need
from .quorum_call import collected, wait_for
from .segments_seen import durable_edits

StreamsFrom = Callable[[int], Awaitable[Sequence[EditLogInputStream]]]
"""Returns input streams for the segments from a txid on, including those in progress, whose streams end with the last
edit that a quorum has."""


TAIL_TXNS_MAX = 5000
"""The number of edits requested from an acceptor at a time: the same as Hadoop's default."""

BEHIND_SECONDS_MAX = 20.0
"""How long a running follower tolerates that the acceptors report fewer edits than it has already read, before it
raises an error."""

CALL = "getJournaledEdits"


@dataclass(frozen=True, slots=True)
class Lacks:
    """An acceptor's answer that it does not have the requested edits, or does not have them in its cache. This is not a
    failure."""

    why: JournalError


class Follower:
    """Polls all acceptors for the next edits, and yields those that a quorum has.

    Stock JournalNodes cache only the latest edits, or none; the follower reads all other edits from the segments.
    """

    def __init__(self, loggers: LoggerSet, config: JournalConfig, streams_from: StreamsFrom) -> None:
        self._loggers = loggers
        self._quorum = loggers.acceptors.majority
        self._config = config
        self._streams_from = streams_from

    async def batches(self, from_txid: int) -> AsyncGenerator[list[EditOp], None]:
        """Yields the edits from a txid on, in batches. Never ends. Raises JournalError."""
        next_txid = from_txid
        patience = Patience(BEHIND_SECONDS_MAX)
        while True:
            before = next_txid
            async with aclosing(self._next(next_txid, patience)) as found:
                async for batch, layout_version in found:
                    yield decoded(batch, layout_version)
                    next_txid = batch.last_txid + 1
            if next_txid == before:
                await asyncio.sleep(self._config.tail_poll_seconds)

    async def _next(self, from_txid: int, patience: Patience) -> AsyncGenerator[tuple[Batch, int], None]:
        """Yields the edits from a txid on that are currently available, with their layout version."""
        try:
            edits = await self.durable_edits(from_txid)
        except QuorumFailed as error:
            if not _have_segments(error):
                patience.check(error)
                return
            async with aclosing(self._from_segments(from_txid)) as found:
                async for batch in found:
                    yield batch
        else:
            patience.renew()
            if edits is not None:
                yield edits

    async def _from_segments(self, from_txid: int) -> AsyncGenerator[tuple[Batch, int], None]:
        """Yields durable edits from the segments. Raises EditsMissing."""
        next_txid = from_txid
        for stream in await self._streams_from(from_txid):
            if stream.first_txid != next_txid:
                oldest = (await self._streams_from(0))[0].first_txid
                raise EditsMissing.before(stream.first_txid, next_txid, is_oldest=oldest == stream.first_txid)
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    yield batch, stream.layout_version
            next_txid = stream.last_txid + 1

    async def durable_edits(self, from_txid: int) -> tuple[Batch, int] | None:
        """Returns the next edits and their layout version, or None if no quorum has any of them yet.

        Raises QuorumFailed if a majority does not answer, or if none of the acceptors that answer has these edits
        cached.
        """
        request = GetJournaledEdits(from_txid, TAIL_TXNS_MAX)
        calls = [asyncio.create_task(_or_lacks(call)) for call in self._loggers.calls(request)]
        try:
            return await self._durable_of(calls, from_txid)
        finally:
            for call in calls:
                call.cancel()  # the next poll retries an acceptor that hangs
            await asyncio.gather(*calls, return_exceptions=True)

    async def _durable_of(
        self, calls: list[asyncio.Task[JournaledEdits | Lacks]], from_txid: int
    ) -> tuple[Batch, int] | None:
        seconds_max = self._config.select_input_streams_seconds_max
        answers = await wait_for(CALL, calls, Need.MAJORITY, seconds_max)
        self._loggers.acceptors.check(CALL, answers, Need.MAJORITY, seconds_max)
        found = durable_edits(_given(answers), self._quorum)
        if found is None and not all(_has_nothing_new(reply) for reply in answers.replies.values()):
            # Lagging acceptors have no edits and answer first, but the other acceptors may still form a quorum.
            await wait_for(CALL, calls, Need.ALL, self._config.tail_poll_seconds, is_polling=True)
            answers = collected(calls)
            found = durable_edits(_given(answers), self._quorum)
        if found is None:
            self._check_any_has_it(answers)
            return None
        edits, count = found
        whole = Batch(from_txid, edits.txn_count, edits.records, None, edits.writer_epoch)
        return checked_part(whole, from_txid, from_txid + count - 1), edits.layout_version

    def _check_any_has_it(self, answers: Answers[JournaledEdits | Lacks]) -> None:
        """Raises QuorumFailed if no acceptor that answered can be expected to have the next edits soon, or if these
        edits may already be in a segment."""
        lacking = {n: reply.why for n, reply in answers.replies.items() if isinstance(reply, Lacks)}
        if not lacking:
            return
        if _given(answers) and not any(isinstance(why, EditsNotCached) for why in lacking.values()):
            return
        names = self._loggers.acceptors.names
        errors = {names[n]: error for n, error in sorted({**answers.errors, **lacking}.items())}
        raise QuorumFailed(CALL, self._quorum.needed, len(names), errors)


async def _or_lacks(call: asyncio.Future[JournaledEdits]) -> JournaledEdits | Lacks:
    try:
        return await call
    except (EditsNotCached, NewerTxid) as error:
        return Lacks(error)


def _given(answers: Answers[JournaledEdits | Lacks]) -> dict[int, JournaledEdits]:
    return {n: reply for n, reply in answers.replies.items() if not isinstance(reply, Lacks)}


def _has_nothing_new(reply: JournaledEdits | Lacks) -> bool:
    return not isinstance(reply, Lacks) and not reply.txn_count


def _have_segments(error: QuorumFailed) -> bool:
    """Returns whether an acceptor reported that these edits are not cached. If so, the segments may have them."""
    return any(isinstance(one, EditsNotCached) for one in error.errors.values())


class Patience:
    """Tolerates, for a limited time, that acceptors report fewer edits than the follower has read.

    The end that an acceptor reports for a segment in progress may move back to an earlier txid while the segment's
    writer ends the segment, or if the bookie that has the latest edit is unavailable. The next poll usually returns
    more edits.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._ends_at: float | None = None

    def renew(self) -> None:
        """Resets the time limit, because the acceptors have caught up."""
        self._ends_at = None

    def check(self, error: QuorumFailed) -> None:
        """Tolerates the error until the time limit expires if it only reports that the requested edit does not exist
        yet; otherwise raises it."""
        now = asyncio.get_running_loop().time()
        if self._ends_at is None:
            self._ends_at = now + self._seconds_max
        is_only_behind = all(isinstance(one, NewerTxid) for one in error.errors.values())
        if now >= self._ends_at or isinstance(error, QuorumTimeout) or not is_only_behind:
            raise error
