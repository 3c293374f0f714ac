"""What readers are shown, and that it is all there."""

from __future__ import annotations

import pytest

from qjm_compat.errors import (
    NewerTxid,
    SegmentUnreadable,
)
from qjm_compat.requests import (
    GetEditLogManifest,
    GetJournaledEdits,
    SegmentState,
)
from tests.qjm_compat.acceptor.one_writer import (
    content,
    edits,
    is_nothing,
    logs,
    writer_of,
)
from tests.qjm_compat.journals import LAYOUT

from .place import InAPlace, Place, assert_shows, place_of


class Readers(InAPlace):
    """Part of the contract."""

    async def test_a_manifest_shows_what_holds_a_txid_or_later_and_never_anything_empty(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_final(4, 6)
        await writer.start(7)
        reader = place.process()
        assert await logs(reader) == [(1, 3, False), (4, 6, False)]
        await writer.send(7, 7)
        await writer.send(7, 8)
        await assert_shows(reader, [(1, 3, False), (4, 6, False), (7, 8, True)])
        await assert_shows(place_of(writer), [(1, 3, False), (4, 6, False), (7, 8, True)])
        assert await logs(reader, in_progress_ok=False) == [(1, 3, False), (4, 6, False)]
        for since, shown in ((3, 3), (4, 2), (6, 2), (7, 1), (8, 1), (9, 0)):
            assert len(await logs(reader, since)) == shown, since

    async def test_a_manifest_says_whose_a_segment_is_and_what_was_committed_in_it(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 3)
        await writer.write_final(1, 2)
        writer.committed_txid = 2
        await writer.write_open(3, 4)
        await assert_shows(place.process(), [(1, 2, False), (3, 4, True)])
        for acceptor in (place_of(writer), place.process()):
            final, open_one = (await acceptor.call(GetEditLogManifest(0, True))).logs
            assert (final.writer_epoch, open_one.writer_epoch, open_one.committed_txid) == (3, 3, 2)

    async def test_a_manifest_never_shows_overlapping_segments(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 5)
        await writer.write_open(3, 4)
        await assert_shows(place.process(), [(3, 4, True)])
        later = await writer_of(place.process(), 2)
        await later.accept(SegmentState(1, 5, True, 1))
        await later.finalize(1, 5)
        assert await logs(place.process()) == [(1, 5, False)]

    async def test_reading_does_not_disturb_the_writer(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.start(1)
        for txid in range(1, 4):
            reader = place.process()
            await reader.call(GetEditLogManifest(0, True))
            await reader.call(GetJournaledEdits(txid, 10))
            await writer.send(1, txid)
            await assert_shows(reader, [(1, txid, True)])
            assert await content(reader, 1, txid) == edits(txid, txid, 1)

    async def test_journaled_edits_are_trimmed_to_what_was_asked_for(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.start(1)
        for first, count in ((1, 3), (4, 1), (5, 4)):
            await writer.send(1, first, count)
        await assert_shows(place.process(), [(1, 8, True)])
        for acceptor in (place_of(writer), place.process()):
            for since, most, last in ((1, 100, 8), (1, 1, 1), (2, 3, 4), (6, 2, 7), (8, 1, 8)):
                found = await acceptor.call(GetJournaledEdits(since, most))
                assert found.txn_count == last - since + 1
                assert found.records == edits(since, last, 1)
                assert (found.layout_version, found.writer_epoch) == (LAYOUT, 1)
                assert not found.is_final

    async def test_journaled_edits_of_a_reader_that_is_ahead_are_an_error_and_not_nothing(
        self, place: Place
    ) -> None:
        """Q13."""
        writer = await self._writer(place, 1)
        await writer.write_open(1, 3)
        await assert_shows(place.process(), [(1, 3, True)])
        for acceptor in (place_of(writer), place.process()):
            assert is_nothing(await acceptor.call(GetJournaledEdits(4, 10)))
            with pytest.raises(
                NewerTxid,
                match="Highest txn ID available in the journal is 3, but requested txns starting at 5",
            ):
                await acceptor.call(GetJournaledEdits(5, 10))

    async def test_journaled_edits_of_a_finalized_segment_say_that_they_are_final(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_open(4, 5)
        found = await place.process().call(GetJournaledEdits(2, 10))
        assert found.is_final
        assert found.records == edits(2, 3, 1)

    async def test_a_segment_that_is_not_there_cannot_be_read(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 3)
        with pytest.raises(SegmentUnreadable, match="No edit log found starting at txid 2"):
            await place.process().read_segment(2, 2)
        with pytest.raises(SegmentUnreadable, match="No edit log found starting at txid 1"):
            await place.process().read_segment(1, 1, in_progress_ok=False)
