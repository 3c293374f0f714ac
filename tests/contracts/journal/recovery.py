"""The two phases of a recovery, at one acceptor.

J4: a finalized segment never changes, and equal ends of different writers are told apart by their epochs.
"""

from __future__ import annotations

import pytest

from qjm_compat.errors import (
    JournalOutOfSync,
    RuleViolated,
    SegmentUnreadable,
)
from qjm_compat.requests import (
    GetEditLogManifest,
    GetJournaledEdits,
    SegmentState,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    content,
    edits,
    formatted,
    logs,
    writer_of,
)

from .place import InAPlace, Place, assert_shows


class Recovery(InAPlace):
    """Part of the contract."""

    async def test_preparing_tells_what_is_here_and_is_the_same_when_asked_again(self, place: Place) -> None:
        writer = await self._writer(place, 3)
        await writer.write_final(1, 3)
        writer.committed_txid = 4
        await writer.write_open(4, 6)
        later = await writer_of(place.process(), 5)
        for _ in range(2):
            reply = await later.prepare(4)
            assert reply.segment == SegmentState(4, 6, True, 3)
            assert (reply.accepted_in_epoch, reply.last_writer_epoch) == (None, 3)
            assert reply.last_committed_txid == 4
        assert (await later.prepare(1)).segment == SegmentState(1, 3, False, 3)
        assert (await later.prepare(7)).segment is None

    async def test_preparing_ends_the_open_segment_even_of_the_same_writer(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 2)
        await writer.prepare(1)
        with pytest.raises(JournalOutOfSync, match="no segment open"):
            await writer.send(1, 3)

    async def test_an_empty_segment_is_as_if_it_had_never_been(self, place: Place) -> None:
        """Q11."""
        writer = await self._writer(place, 1)
        await writer.start(1)
        later = await writer_of(place.process(), 2)
        assert (await later.prepare(1)).segment is None
        assert await logs(place.process()) == []

    async def test_an_accepted_recovery_is_remembered_until_the_segment_is_finalized(
        self, place: Place
    ) -> None:
        await (await self._writer(place, 1)).write_open(1, 3)
        second = await writer_of(place.process(), 2)
        state = (await second.prepare(1)).segment
        assert state is not None
        await second.accept(state)
        await second.accept(state)
        (log,) = (await place.process().call(GetEditLogManifest(0, True))).logs
        edits_here = await place.process().call(GetJournaledEdits(1, 10))
        assert (log.accepted_in_epoch, edits_here.accepted_in_epoch) == (2, 2)
        third = await writer_of(place.process(), 3)
        assert (await third.prepare(1)).accepted_in_epoch == 2
        await third.accept(state)
        assert (await OneWriter(place.process(), 3, first_serial=9).prepare(1)).accepted_in_epoch == 3
        await third.finalize(1, 3)
        reply = await third.prepare(1)
        assert (reply.segment, reply.accepted_in_epoch) == (SegmentState(1, 3, False, 1), None)

    async def test_accepting_copies_what_is_not_here_and_drops_what_was(self, place: Place) -> None:
        a, b = place.process("a"), place.process("b")
        for acceptor in (a, b):
            await formatted(acceptor)
        await (await writer_of(a, 1)).write_open(1, 5)
        short = await writer_of(b, 1)
        await short.write_open(1, 2)
        for_a, for_b = await writer_of(a, 2), await writer_of(b, 2)
        state = (await for_a.prepare(1)).segment
        assert state == SegmentState(1, 5, True, 1)
        await for_b.accept(state, source="a")
        await assert_shows(place.process("b"), [(1, 5, True)])
        await for_b.finalize(1, 5)
        assert await content(place.process("b"), 1) == edits(1, 5, 1)
        await for_b.purge(1)
        assert len(await place.ledgers("b")) == 1

    async def test_accepting_can_shorten_a_segment_that_nobody_was_told_of(self, place: Place) -> None:
        a, b = place.process("a"), place.process("b")
        for acceptor in (a, b):
            await formatted(acceptor)
        await (await writer_of(a, 1)).write_open(1, 5)
        long = await writer_of(b, 1)
        await long.write_open(1, 7)
        await writer_of(a, 2)
        for_b = await writer_of(b, 2)
        await for_b.accept(SegmentState(1, 5, True, 1), source="a")
        assert (await for_b.prepare(1)).segment == SegmentState(1, 5, True, 1)
        assert await content(place.process("b"), 1) == edits(1, 5, 1)

    async def test_J4_equal_ends_of_different_writers_are_copied_and_of_one_writer_are_not(
        self, place: Place
    ) -> None:
        """Q15."""
        a, b = place.process("a"), place.process("b")
        for acceptor in (a, b):
            await formatted(acceptor)
        await (await writer_of(a, 1)).write_open(10, 11)
        await (await writer_of(b, 2)).write_open(10, 11)
        for_a = await writer_of(a, 3)
        await writer_of(b, 3)
        before = await place.ledgers("a")
        await for_a.accept(SegmentState(10, 11, True, 1), source="b")
        assert await place.ledgers("a") == before
        await for_a.accept(SegmentState(10, 11, True, 2), source="b")
        assert await content(place.process("a"), 10) == edits(10, 11, 2)

    async def test_J4_a_copy_of_another_writers_edits_is_not_taken_for_the_chosen_ones(
        self, place: Place
    ) -> None:
        """Q15: the source may have been given to a later recovery after it was chosen."""
        a, b = place.process("a"), place.process("b")
        for acceptor in (a, b):
            await formatted(acceptor)
        await (await writer_of(a, 2)).write_open(10, 11)
        await writer_of(a, 3)
        for_b = await writer_of(b, 3)
        with pytest.raises(SegmentUnreadable, match="writer"):
            await for_b.accept(SegmentState(10, 11, True, 1), source="a")
        assert await logs(b) == []
        assert await place.ledgers("b") == set()

    async def test_a_recovery_finalizes_only_what_it_accepted_here(self, place: Place) -> None:
        """Q15: another writer's segment may end at the same txid: the end alone does not say that it was chosen."""
        await (await self._writer(place, 1)).write_open(10, 11)
        later = await writer_of(place.process(), 3)
        with pytest.raises(JournalOutOfSync, match="not accepted"):
            await later.finalize(10, 11)
        await later.accept(SegmentState(10, 11, True, 1))
        await later.finalize(10, 11)
        assert await logs(place.process()) == [(10, 11, False)]

    async def test_accepting_fails_where_the_source_has_less_and_leaves_everything_as_it_was(
        self, place: Place
    ) -> None:
        a, b = place.process("a"), place.process("b")
        for acceptor in (a, b):
            await formatted(acceptor)
        await (await writer_of(a, 1)).write_open(1, 3)
        await (await writer_of(b, 1)).write_open(1, 2)
        for_b = await writer_of(b, 2)
        before = await place.ledgers("b")
        with pytest.raises(SegmentUnreadable):
            await for_b.accept(SegmentState(1, 5, True, 1), source="a")
        reply = await for_b.prepare(1)
        assert (reply.segment, reply.accepted_in_epoch) == (SegmentState(1, 2, True, 1), None)
        assert await place.ledgers("b") == before

    async def test_a_recovery_that_would_drop_a_committed_edit_is_refused(self, place: Place) -> None:
        """Q10."""
        writer = await self._writer(place, 1)
        await writer.write_open(1, 3)
        writer.committed_txid = 3
        await writer.send(1, 4)
        later = await writer_of(place.process(), 2)
        with pytest.raises(RuleViolated, match="would discard already-committed txn"):
            await later.accept(SegmentState(1, 2, True, 1))
        assert (await later.prepare(1)).segment == SegmentState(1, 4, True, 1)

    async def test_J4_a_finalized_segment_is_accepted_as_it_is_and_never_replaced(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        later = await writer_of(place.process(), 2)
        await later.accept(SegmentState(1, 3, False, 1))
        await later.accept(SegmentState(1, 3, True, 0))
        with pytest.raises(RuleViolated, match="Cannot replace finalized segment 1-3"):
            await later.accept(SegmentState(1, 4, True, 1))
        assert await logs(place.process()) == [(1, 3, False)]
