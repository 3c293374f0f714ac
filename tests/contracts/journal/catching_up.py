"""Taking in what is finalized at another acceptor, and joining others that are at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qjm_compat.acceptor.programs.sync_programs import SyncOutcome
from qjm_compat.errors import (
    BadJournalState,
    JournalNotFormatted,
    RuleViolated,
    SegmentUnreadable,
    StaleEpoch,
)
from qjm_compat.requests import (
    DiscardSegments,
    DoPreUpgrade,
    DoRollback,
    DoUpgrade,
    Format,
    RemoteEditLog,
    SegmentState,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    ReadableAcceptor,
    content,
    edits,
    formatted,
    logs,
    writer_of,
)
from tests.qjm_compat.journals import NAMESPACE

from .place import UPGRADED, InAPlace, Place, place_of

ONE, TWO = RemoteEditLog(1, 3, writer_epoch=5), RemoteEditLog(4, 6, writer_epoch=5)


async def unpaced(size: int) -> None:
    assert size > 0


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def take(place: Place, log: RemoteEditLog, into: ReadableAcceptor | None = None) -> SyncOutcome:
    """Acceptor `b` takes in a segment of acceptor `a`."""
    return await (into or place.process("b")).take_finalized(log, place.process("a"), unpaced, yes)


class CatchingUp(InAPlace):
    """Part of the contract."""

    async def _a_holds(self, place: Place, *, b_is_new: bool = False) -> OneWriter:
        """Segments 1-3 and 4-6 of epoch 5 are finalized at `a`; `b` is formatted, and lacks them."""
        writer = await self._writer(place, 5)
        await writer.write_final(1, 3)
        await writer.write_final(4, 6)
        if not b_is_new:
            await formatted(place.process("b"))
        return writer

    async def test_a_segment_that_is_lacking_is_copied_and_is_there_ever_after(self, place: Place) -> None:
        await self._a_holds(place)
        assert [await take(place, log) for log in (ONE, TWO)] == [SyncOutcome.COPIED, SyncOutcome.COPIED]
        assert await logs(place.process("b")) == [(1, 3, False), (4, 6, False)]
        assert await content(place.process("b"), 1) == edits(1, 3, 5)
        assert await place.records("b") == {1: 3, 4: 6}
        ledgers = await place.ledgers("b")
        assert [await take(place, log) for log in (ONE, TWO)] == [SyncOutcome.THERE, SyncOutcome.THERE]
        assert await place.ledgers("b") == ledgers
        assert len(ledgers) == 2

    async def test_whoever_copies_in_vain_leaves_nothing_behind(self, place: Place) -> None:
        await self._a_holds(place)
        slow, fast = place.process("b"), place.process("b")

        async def overtaken() -> bool:
            assert await take(place, ONE, fast) is SyncOutcome.COPIED
            return True

        assert await slow.take_finalized(ONE, place.process("a"), unpaced, overtaken) is SyncOutcome.THERE
        assert len(await place.ledgers("b")) == 1
        assert await slow.take_finalized(TWO, place.process("a"), unpaced, no) is SyncOutcome.PURGED
        assert len(await place.ledgers("b")) == 1
        gone = RemoteEditLog(7, 9, writer_epoch=5)
        with pytest.raises(SegmentUnreadable):
            await take(place, gone)
        with pytest.raises(SegmentUnreadable):
            await take(place, replace(TWO, writer_epoch=4))
        assert len(await place.ledgers("b")) == 1
        assert await content(place.process("b"), 1) == edits(1, 3, 5)

    async def test_with_a_segment_comes_the_promise_of_its_writer(self, place: Place) -> None:
        """Else a new writer could be given its epoch, and one before it could go on here."""
        await self._a_holds(place)
        old = await writer_of(place.process("b"), 2)
        await old.write_open(1, 2)
        assert await take(place, TWO) is SyncOutcome.COPIED
        with pytest.raises(StaleEpoch):
            await old.send(1, 3)
        with pytest.raises(StaleEpoch):
            await OneWriter(place.process("b"), 5).new_epoch()
        assert (await OneWriter(place.process("b"), 6).new_epoch()).last_segment_txid == 4
        state = await place.state("b")
        assert state is not None and state.segments[0].end_txid == 2

    async def test_a_copy_that_ends_alike_is_finalized_where_it_is(self, place: Place) -> None:
        writer = await self._a_holds(place)
        own = await writer_of(place.process("b"), 5)
        own.committed_txid = writer.committed_txid
        await own.write_open(1, 3)
        before = await place.ledgers("b")
        assert await take(place, ONE) is SyncOutcome.FINALIZED
        assert await logs(place.process("b")) == [(1, 3, False)]
        assert await place.ledgers("b") == before
        assert await take(place, ONE) is SyncOutcome.THERE

    @pytest.mark.parametrize("last_txid", [1, 5])
    async def test_a_stale_copy_is_replaced_whether_it_is_shorter_or_longer(
        self, place: Place, last_txid: int
    ) -> None:
        await self._a_holds(place)
        own = await writer_of(place.process("b"), 4)
        await own.write_open(1, last_txid)
        assert await take(place, ONE) is SyncOutcome.COPIED
        assert await content(place.process("b"), 1) == edits(1, 3, 5)
        later = await writer_of(place.process("b"), 6)
        await later.purge(1)
        assert len(await place.ledgers("b")) == 1, "what was replaced is deleted"

    async def test_a_finalized_copy_that_differs_is_never_touched(self, place: Place) -> None:
        await self._a_holds(place)
        other = await writer_of(place.process("b"), 3)
        await other.write_final(1, 3)
        await other.write_final(4, 5)
        for log, told in ((ONE, "epoch 3, but elsewhere with end 3 and epoch 5"), (TWO, "here with end 5")):
            with pytest.raises(RuleViolated, match=told):
                await take(place, log)
        assert await content(place.process("b"), 1) == edits(1, 3, 3)
        assert await logs(place.process("b")) == [(1, 3, False), (4, 5, False)]

    async def test_what_is_committed_is_not_replaced_by_less(self, place: Place) -> None:
        """Q10."""
        await self._a_holds(place)
        own = await writer_of(place.process("b"), 4)
        await own.write_open(1, 4)
        own.committed_txid = 4
        await own.send(1, 5)
        with pytest.raises(RuleViolated, match="already-committed"):
            await take(place, ONE)

    async def test_what_its_writer_is_at_is_left_to_it(self, place: Place) -> None:
        await self._a_holds(place)
        here = place.process("b")
        own = await writer_of(here, 5)
        await own.write_open(1, 2)
        assert (await here.segments_held()).unsealed == frozenset({1})
        assert await take(place, ONE, here) is SyncOutcome.OPEN
        await own.send(1, 3)
        await own.finalize(1, 3)
        assert await take(place, ONE, here) is SyncOutcome.THERE

    async def test_a_writer_goes_on_beside_it(self, place: Place) -> None:
        await self._a_holds(place)
        here = place.process("b")
        writer = await writer_of(here, 6)
        await writer.write_open(7, 8)
        for into in (here, place.process("b")):
            assert await take(place, ONE, into) in (SyncOutcome.COPIED, SyncOutcome.THERE)
            await writer.send(7, 9 if into is here else 10)
        assert await take(place, TWO) is SyncOutcome.COPIED
        await writer.finalize(7, 10)
        await writer.write_final(11, 12)
        assert [start for start, *_ in await logs(place.process("b"))] == [1, 4, 7, 11]

    async def test_what_was_purged_does_not_come_back(self, place: Place) -> None:
        await self._a_holds(place)
        writer = await writer_of(place.process("b"), 5)
        await writer.write_final(4, 6)
        await writer.purge(4)
        assert await take(place, ONE) is SyncOutcome.PURGED
        await writer.purge(7)
        assert await take(place, ONE) is SyncOutcome.PURGED
        assert await logs(place.process("b")) == []
        assert (await place.process("b").segments_held()).purged_below == 7

    async def test_what_was_dropped_does_not_come_back_until_a_writer_has_told_of_more(
        self, place: Place
    ) -> None:
        """A discard reaches one acceptor after the other; one that it has not reached is no source for the others."""
        await self._a_holds(place)
        assert await take(place, ONE) is SyncOutcome.COPIED
        assert await take(place, TWO) is SyncOutcome.COPIED
        await place.process("b").call(DiscardSegments(4))
        assert await take(place, TWO) is SyncOutcome.NOT_VOUCHED
        assert (await place.process("b").segments_held()).vouched_txid == 3
        later = await writer_of(place.process("b"), 9)
        await later.write_open(7, 7)
        later.committed_txid = 6
        await later.send(7, 8)
        assert await take(place, TWO, place_of(later)) is SyncOutcome.COPIED

    @pytest.mark.parametrize("how", ["format", "rollback"])
    async def test_nor_what_a_format_or_a_rollback_dropped(self, place: Place, how: str) -> None:
        await self._a_holds(place)
        b = place.process("b")
        if how == "format":
            assert await take(place, TWO) is SyncOutcome.COPIED
            await b.call(Format(NAMESPACE, force=True))
        else:
            await b.call(DoPreUpgrade())
            with pytest.raises(JournalNotFormatted):
                await take(place, TWO)
            await b.call(DoUpgrade(UPGRADED.storage))
            await (await writer_of(b, 9)).write_final(4, 6)
            await b.call(DoRollback())
        assert await take(place, TWO) is SyncOutcome.NOT_VOUCHED
        assert await logs(place.process("b")) == []
        record = place_of(await writer_of(place.process("b"), 20))
        assert (await record.segments_held()).vouched_txid == 0

    async def test_what_is_taken_in_after_an_upgrade_goes_with_its_rollback(self, place: Place) -> None:
        await self._a_holds(place)
        b = place.process("b")
        await b.call(DoPreUpgrade())
        await b.call(DoUpgrade(UPGRADED.storage))
        writer = await writer_of(b, 9)
        writer.committed_txid = 6
        await writer.write_open(7, 7)
        assert await take(place, ONE, b) is SyncOutcome.COPIED
        await place.process("b").call(DoRollback())
        assert await logs(place.process("b")) == []

    # --- beside a recovery --------------------------------------------------------------------------

    async def test_a_recovery_finds_what_came_between_its_steps(self, place: Place) -> None:
        await self._a_holds(place)
        own = await writer_of(place.process("b"), 4)
        await own.write_open(1, 1)
        later = await writer_of(place.process("b"), 7)
        assert (await later.prepare(1)).segment == SegmentState(1, 1, True, 4)
        assert await take(place, ONE) is SyncOutcome.COPIED
        await later.accept(SegmentState(1, 3, False, 5), "a")
        await later.finalize(1, 3)
        assert (await later.prepare(1)).segment == SegmentState(1, 3, False, 5)
        assert await content(place.process("b"), 1) == edits(1, 3, 5)

    async def test_nothing_begins_where_another_acceptors_segments_came_meanwhile(self, place: Place) -> None:
        await self._a_holds(place)
        later = await writer_of(place.process("b"), 7)
        assert await take(place, ONE) is SyncOutcome.COPIED
        for txid in (1, 2, 3):
            with pytest.raises(BadJournalState):
                await later.start(txid)
        await later.start(4)

    # --- joining ------------------------------------------------------------------------------------

    async def test_one_that_joined_cannot_tell_of_what_was_in_progress_then(self, place: Place) -> None:
        await self._a_holds(place, b_is_new=True)
        b = place.process("b")
        await b.call(Format(NAMESPACE, promised_epoch=5, joined_behind=7))
        held = await b.segments_held()
        assert (held.last_promised_epoch, held.in_progress_from, held.behind) == (5, 7, 7)
        with pytest.raises(StaleEpoch):
            await OneWriter(place.process("b"), 5).new_epoch()
        later = OneWriter(place.process("b"), 6)
        assert (await later.new_epoch()).last_segment_txid == 7
        for start in (4, 7):
            with pytest.raises(BadJournalState, match="joined the journal while segment 7 was in progress"):
                await later.prepare(start)
        assert (await later.prepare(8)).segment is None
        with pytest.raises(BadJournalState, match="sync this acceptor first"):
            await place.process("b").call(DiscardSegments(4))

    async def test_one_that_joined_goes_on_once_it_has_that_segment(self, place: Place) -> None:
        await self._a_holds(place, b_is_new=True)
        b = place.process("b")
        await b.call(Format(NAMESPACE, promised_epoch=5, joined_behind=4))
        later = await writer_of(b, 6)
        await later.accept(SegmentState(4, 6, True, 5), "a")
        assert (await later.prepare(4)).segment == SegmentState(4, 6, True, 5)
        assert (await b.segments_held()).behind == 0
        await later.finalize(4, 6)
        assert await take(place, ONE) is SyncOutcome.COPIED
        await place.process("b").call(DiscardSegments(4))
        assert (await OneWriter(place.process("b"), 99).new_epoch()).last_segment_txid == 1
