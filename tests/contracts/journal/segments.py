"""Starting, writing, finalizing and purging segments."""

from __future__ import annotations

import pytest

from qjm_compat.acceptor.programs.segment_programs import REPLACED_LEDGERS_KEPT_MAX
from qjm_compat.edits import encode_frame
from qjm_compat.errors import (
    BadJournalState,
    BadRequest,
    JournalOutOfSync,
)
from qjm_compat.requests import (
    GetEditLogManifest,
    GetJournaledEdits,
    SegmentState,
    SendEdits,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    content,
    edits,
    is_nothing,
    logs,
    writer_of,
)
from tests.qjm_compat.journals import frames

from .place import InAPlace, Place, assert_shows, place_of

OP_NOBODY_LOOKS_AT = 24
"""An acceptor verifies frames, not what they say."""


class Segments(InAPlace):
    """Part of the contract."""

    async def test_edits_are_durable_when_the_call_is_answered(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.start(1, -60)
        await writer.send(1, 1, 3)
        await writer.send(1, 4)
        elsewhere = place.process()
        await assert_shows(elsewhere, [(1, 4, True)])
        assert await content(elsewhere, 1) == edits(1, 4, 1)
        assert (await elsewhere.read_segment(1, 1)).layout_version == -60

    async def test_a_batch_of_nothing_only_tells_of_a_commit(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        writer.committed_txid = 3
        await place_of(writer).call(
            SendEdits(info=writer.info(), segment_txid=4, first_txid=4, num_txns=0, records=b"")
        )
        assert (await place_of(writer).call(GetEditLogManifest(0))).committed_txid == 3

    async def test_after_a_batch_of_another_segment_no_segment_is_open_and_after_a_gap_it_still_is(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 2)
        with pytest.raises(JournalOutOfSync, match="expecting nextTxId=3"):
            await writer.send(1, 4)
        await writer.send(1, 3)
        with pytest.raises(JournalOutOfSync, match="writing segment 4 but current segment is 1"):
            await writer.send(4, 4)
        with pytest.raises(JournalOutOfSync, match="no segment open"):
            await writer.send(1, 4)

    async def test_batches_whose_frames_are_wrong_are_refused_and_leave_nothing(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.start(1)
        damaged = bytearray(frames(1, 2))
        damaged[-1] ^= 1
        for records, count in ((frames(2, 1), 1), (frames(1, 2), 1), (frames(1, 1), 2), (bytes(damaged), 2)):
            with pytest.raises(BadRequest, match="is refused"):
                await place_of(writer).call(
                    SendEdits(
                        info=writer.info(), segment_txid=1, first_txid=1, num_txns=count, records=records
                    )
                )
        await writer.send(1, 1, 2)
        await assert_shows(place.process(), [(1, 2, True)])
        assert await content(place.process(), 1) == edits(1, 2, 1)

    async def test_starting_over_is_allowed_over_nothing_and_over_a_single_transaction(
        self, place: Place
    ) -> None:
        first = await self._writer(place, 1)
        await first.start(1)
        await first.start(1)
        await first.send(1, 1)
        second = await writer_of(place.process(), 2)
        await second.start(1)
        await second.send(1, 1)
        await second.send(1, 2)
        await assert_shows(place.process(), [(1, 2, True)])
        assert await content(place.process(), 1) == edits(1, 2, 2)
        with pytest.raises(BadJournalState, match="seems to contain valid transactions"):
            await second.start(1)
        with pytest.raises(JournalOutOfSync, match="no segment open"):
            await second.send(1, 3)

    async def test_starting_over_is_not_allowed_over_a_transaction_of_the_same_writer(
        self, place: Place
    ) -> None:
        """An earlier writer's was never acknowledged where this one may start; its own may have been."""
        writer = await self._writer(place, 1)
        await writer.start(1)
        await writer.send(1, 1)
        with pytest.raises(BadJournalState, match="seems to contain valid transactions"):
            await writer.start(1)
        await assert_shows(place.process(), [(1, 1, True)])
        assert await content(place.process(), 1) == edits(1, 1, 1)

    async def test_no_segment_starts_inside_of_a_finalized_one(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_final(4, 10)
        for txid in (1, 2, 3, 5, 10):
            with pytest.raises(BadJournalState, match="Already have a finalized segment"):
                await writer.start(txid)
        await writer.write_open(11, 12)
        await place.finalize_without_a_record(11, 12)
        later = await writer_of(place.process(), 2)
        with pytest.raises(BadJournalState, match="Already have a finalized segment"):
            await later.start(12)
        await later.write_final(13, 14)
        shown = [(1, 3, False), (4, 10, False), (11, 12, False), (13, 14, False)]
        assert await logs(place.process()) == shown

    async def test_a_segment_begins_only_with_numbers_that_a_journal_can_hold(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        before = await place.state(), await place.ledgers()
        wrong_txids = [(txid, None) for txid in (-5, 0, 2**63 - 1, 2**63, 2**64 + 1)]
        wrong_layouts = [(4, layout) for layout in (-(2**31) - 1, 2**31, 2**40)]
        for txid, layout_version in (*wrong_txids, *wrong_layouts):
            with pytest.raises(BadRequest):
                await writer.start(txid, layout_version)
            assert (await place.state(), await place.ledgers()) == before, (txid, layout_version)
        await writer.write_final(4, 5)

    async def test_edits_reach_up_to_the_last_txid_that_has_a_next_one(self, place: Place) -> None:
        last = 2**63 - 2  # the one after it still is a signed number of 64 bits
        ops = [encode_frame(OP_NOBODY_LOOKS_AT, txid, b"") for txid in (last - 1, last, last + 1)]
        writer = await self._writer(place, 1)
        await writer.start(last - 1)
        await writer.send_frames(last - 1, last - 1, *ops[:2])
        with pytest.raises(BadRequest):
            await writer.send_frames(last - 1, last + 1, ops[2])
        await (await writer_of(place.process(), 2)).take_over(last - 1)
        reader = place.process()
        assert await logs(reader) == [(last - 1, last, False)]
        assert await content(reader, last - 1) == b"".join(ops[:2])
        assert is_nothing(await reader.call(GetJournaledEdits(last + 1, 10)))

    async def test_purging_past_the_end_hides_nothing_that_is_written_later(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.purge(1000)
        await writer.write_final(1, 3)
        assert await logs(place.process()) == [(1, 3, False)]
        await writer.purge(1000)
        assert await logs(place.process()) == []
        await writer.write_final(4, 6)
        await writer.write_open(7, 8)
        await assert_shows(place.process(), [(4, 6, False), (7, 8, True)])
        await writer.purge(1000)
        await writer.send(7, 9)
        await writer.finalize(7, 9)
        await writer.write_open(10, 10)
        await assert_shows(place.process(), [(7, 9, False), (10, 10, True)])
        later = await writer_of(place.process(), 2)
        await later.take_over(10)
        assert await logs(place.process()) == [(7, 9, False), (10, 10, False)]
        assert len(await place.ledgers()) == 2

    async def test_starting_over_forgets_what_a_recovery_accepted_there(self, place: Place) -> None:
        await (await self._writer(place, 1)).write_open(1, 1)
        second = await writer_of(place.process(), 2)
        await second.accept(SegmentState(1, 1, True, 1))
        third = await writer_of(place.process(), 3)
        await third.write_open(1, 2)
        reply = await third.prepare(1)
        assert (reply.segment, reply.accepted_in_epoch) == (SegmentState(1, 2, True, 3), None)

    async def test_starting_a_segment_makes_its_writer_the_last_writer(self, place: Place) -> None:
        await self._writer(place, 7)
        assert (await OneWriter(place.process(), 7).prepare(1)).last_writer_epoch == 0
        await OneWriter(place.process(), 7, first_serial=5).start(1)
        assert (await OneWriter(place.process(), 7, first_serial=9).prepare(1)).last_writer_epoch == 7

    async def test_finalizing_is_durable_and_may_be_asked_for_again(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.finalize(1, 3)
        elsewhere = OneWriter(place.process(), 1)
        await elsewhere.finalize(1, 3)
        assert await logs(place.process()) == [(1, 3, False)]
        with pytest.raises(JournalOutOfSync, match="no segment open"):
            await writer.send(1, 4)

    async def test_a_failed_finalization_closes_the_segment_for_writing(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 3)
        with pytest.raises(JournalOutOfSync, match="only written up to txid 3"):
            await writer.finalize(1, 4)
        with pytest.raises(JournalOutOfSync, match="on disk only contains up to txid 3"):
            await writer.finalize(1, 4)
        with pytest.raises(JournalOutOfSync, match="no segment open"):
            await writer.send(1, 4)
        await writer.finalize(1, 3)
        assert await logs(place.process()) == [(1, 3, False)]

    async def test_purging_deletes_ledgers_and_records_of_what_ended_before(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        for first in (1, 4, 7):
            await writer.write_final(first, first + 2)
        await writer.write_open(10, 12)
        before = await place.ledgers()
        await writer.purge(8)
        await assert_shows(place.process(), [(7, 9, False), (10, 12, True)])
        assert len(await place.ledgers()) == len(before) - 2
        assert set(await place.records()) <= {7}
        await writer.purge(1)
        await assert_shows(place.process(), [(7, 9, False), (10, 12, True)])
        await writer.send(10, 13)
        await writer.purge(100)
        await assert_shows(place.process(), [(10, 13, True)])
        await writer.send(10, 14)

    async def test_purging_up_to_what_no_txid_can_be_is_refused(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        before = await place.state()
        for wrong in (-1, 2**63 - 1, 2**64 + 1):
            with pytest.raises(BadRequest):
                await writer.purge(wrong)
            assert await place.state() == before, wrong
        await writer.purge(0)
        assert await logs(place.process()) == [(1, 3, False)]

    async def test_writers_that_come_and_go_without_an_edit_leave_a_bounded_number_of_ledgers(
        self, place: Place
    ) -> None:
        acceptor = place_of(await self._writer(place, 1))
        for epoch in range(2, 2 * REPLACED_LEDGERS_KEPT_MAX + 4):
            await (await writer_of(acceptor, epoch)).start(1)
        assert len(await place.ledgers()) <= REPLACED_LEDGERS_KEPT_MAX + 1
        state = await place.state()
        assert state is not None
        assert len(state.replaced_ledgers) <= REPLACED_LEDGERS_KEPT_MAX

    async def test_purging_deletes_what_other_steps_left_behind(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.start(1)
        await writer.start(5)
        await writer.start(9)
        await writer.send(9, 9)
        await writer.purge(1)
        assert len(await place.ledgers()) == 1
        state = await place.state()
        assert state is not None
        assert state.replaced_ledgers == ()
