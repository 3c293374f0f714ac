"""What is done to the whole journal while somebody still believes to be its writer, or when a ledger is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from qjm_compat.errors import (
    BadJournalState,
    BadRequest,
    JournalNotFormatted,
    JournalOutOfSync,
    JournalUnavailable,
    StaleEpoch,
)
from qjm_compat.requests import (
    DiscardSegments,
    DoPreUpgrade,
    DoRollback,
    DoUpgrade,
    Format,
    GetJournalState,
    GetStorageInfo,
    Request,
    SegmentState,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    ReadableAcceptor,
    content,
    edits,
    logs,
    next_writer,
    writer_of,
)
from tests.qjm_compat.journals import NAMESPACE

from .place import UPGRADED, InAPlace, Place, place_of

Steps = Sequence[Request[None]]

FORMAT: Steps = (Format(NAMESPACE, force=True),)
DISCARD: Steps = (DiscardSegments(4),)
PRE_UPGRADE: Steps = (DoPreUpgrade(),)
UPGRADE: Steps = (DoPreUpgrade(), DoUpgrade(UPGRADED.storage))
HALF_AND_BACK: Steps = (DoPreUpgrade(), DoRollback())
THERE_AND_BACK: Steps = (*UPGRADE, DoRollback())

CHANGES = {
    "format": FORMAT,
    "discard": DISCARD,
    "upgrade": UPGRADE,
    "half-and-back": HALF_AND_BACK,
    "there-and-back": THERE_AND_BACK,
}


async def done(acceptor: ReadableAcceptor, steps: Steps) -> None:
    for step in steps:
        await acceptor.call(step)


async def assert_over(place: Place, old: OneWriter, journal_id: str, *, writing: bool) -> None:
    """Whatever the old writer calls is refused, and changes nothing."""
    before = await place.state(journal_id=journal_id), await place.records(journal_id=journal_id)
    calls = [old.send(4, 6)] if writing else []
    for call in (*calls, old.start(4), old.start(6), old.finalize(4, 5), old.purge(2), old.beat()):
        with pytest.raises((StaleEpoch, JournalNotFormatted)):
            await call
    assert (await place.state(journal_id=journal_id), await place.records(journal_id=journal_id)) == before


class Administration(InAPlace):
    """Part of the contract."""

    @pytest.mark.parametrize("steps", [*CHANGES.values(), PRE_UPGRADE], ids=[*CHANGES, "half-an-upgrade"])
    async def test_a_change_of_the_whole_journal_ends_its_writer(self, place: Place, steps: Steps) -> None:
        """Also one that has nothing open, so that there is no ledger to fence: its next segment is refused."""
        for n, (writing, here) in enumerate(product((True, False), repeat=2)):
            journal_id = f"ns-{n}"
            old = await self._writer(place, 1, journal_id)
            await old.write_final(1, 3)
            if writing:
                await old.write_open(4, 5)
            await done(place_of(old) if here else place.process(journal_id=journal_id), steps)
            await assert_over(place, old, journal_id, writing=writing)

    @pytest.mark.parametrize("steps", CHANGES.values(), ids=CHANGES)
    async def test_a_change_of_the_whole_journal_raises_the_promise_and_the_next_writer_goes_on(
        self, place: Place, steps: Steps
    ) -> None:
        old = await self._writer(place, 7)
        await old.write_final(1, 3)
        acceptor = place.process()
        await done(acceptor, steps)
        promised = (await acceptor.call(GetJournalState())).last_promised_epoch
        assert promised > 7
        with pytest.raises(StaleEpoch):
            await OneWriter(place.process(), promised).new_epoch()
        later = await next_writer(place.process())
        await later.write_final(4, 5)
        assert (await logs(place.process()))[-1] == (4, 5, False)
        assert await content(place.process(), 4) == edits(4, 5, later.epoch)

    async def test_a_copy_that_a_finalized_segment_overruled_is_no_obstacle_to_discarding(
        self, place: Place
    ) -> None:
        first = await self._writer(place, 1)
        await first.write_open(1, 5)
        await first.write_open(3, 9)  # a writer that no proposer would be
        later = await writer_of(place.process(), 2)
        await later.accept(SegmentState(1, 5, True, 1))
        await later.finalize(1, 5)
        await place.process().call(DiscardSegments(6))
        assert await logs(place.process()) == [(1, 5, False)]

    async def test_nothing_begins_or_is_discarded_where_edits_were_purged(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        for first in (1, 4, 7):
            await writer.write_final(first, first + 2)
        await writer.purge(7)
        with pytest.raises(BadJournalState, match="purged"):
            await writer.start(2)
        with pytest.raises(BadJournalState, match="purged"):
            await place.process().call(DiscardSegments(2))
        assert await logs(place.process()) == [(7, 9, False)]
        await place.process().call(DiscardSegments(7))
        assert await logs(place.process()) == []
        await (await next_writer(place.process())).write_final(7, 8)
        assert await logs(place.process()) == [(7, 8, False)]

    async def test_numbers_that_a_journal_cannot_hold_are_refused_and_change_nothing(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_open(4, 5)
        before = await place.state()
        for wrong in (
            *(DiscardSegments(start) for start in (0, -5, 2**63, 2**64 + 1)),
            Format(replace(NAMESPACE, layout_version=2**31), force=True),
            Format(replace(NAMESPACE, namespace_id=2**63), force=True),
            Format(replace(NAMESPACE, c_time=-1), force=True),
        ):
            with pytest.raises(BadRequest):
                await place.process().call(wrong)
            assert await place.state() == before, wrong
        await writer.send(4, 6)

    @pytest.mark.parametrize(("layout_version", "number"), [(2**31 - 1, 2**63 - 1), (-(2**31), 1)])
    async def test_the_largest_and_the_smallest_numbers_that_a_journal_can_hold_are_kept(
        self, place: Place, layout_version: int, number: int
    ) -> None:
        namespace = replace(NAMESPACE, layout_version=layout_version, namespace_id=number, c_time=number)
        await place.process().call(Format(namespace))
        assert await place.process().call(GetStorageInfo()) == namespace.storage
        await place.process().call(DoPreUpgrade())
        await place.process().call(DoUpgrade(namespace.storage))
        assert await place.process().call(GetStorageInfo()) == namespace.storage

    async def test_a_segment_that_was_open_when_the_journal_was_formatted_anew_is_gone_for_the_next_writer(
        self, place: Place
    ) -> None:
        """Also for one whose first call finalizes it, in the process that had it open."""
        old = await self._writer(place, 1)
        await old.write_open(1, 5)
        acceptor = place_of(old)
        await acceptor.call(Format(NAMESPACE, force=True))
        promised = (await acceptor.call(GetJournalState())).last_promised_epoch
        with pytest.raises(JournalOutOfSync, match="No log file to finalize at transaction ID 1"):
            await OneWriter(acceptor, promised + 1).finalize(1, 3)

    async def test_an_upgrade_to_what_a_journal_cannot_hold_is_refused(self, place: Place) -> None:
        await self._writer(place, 1)
        acceptor = place.process()
        await acceptor.call(DoPreUpgrade())
        before = await place.state()
        with pytest.raises(BadRequest, match="layout version is 2147483648"):
            await acceptor.call(DoUpgrade(replace(UPGRADED.storage, layout_version=2**31)))
        assert await place.state() == before
        await acceptor.call(DoUpgrade(UPGRADED.storage))

    async def test_a_segment_whose_ledger_is_lost_stops_every_writer_until_it_is_discarded(
        self, place: Place
    ) -> None:
        """Nobody can say where it ended, so a recovery that went on might lose what was acknowledged."""
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_open(4, 6)
        await place.lose_ledger(4)
        for _ in range(2):
            with pytest.raises(JournalUnavailable, match="ledger"):
                await next_writer(place.process())
        with pytest.raises(JournalUnavailable, match="ledger"):
            await place.process().call(DiscardSegments(5))  # what is before 5 would be kept
        await place.process().call(DiscardSegments(4))
        with pytest.raises(StaleEpoch):
            await writer.finalize(4, 6)
        later = await next_writer(place.process())
        await later.write_final(4, 5)
        await later.purge(1)
        assert await logs(place.process()) == [(1, 3, False), (4, 5, False)]
        assert len(await place.ledgers()) == 2

    async def test_a_journal_whose_ledgers_are_lost_can_be_formatted_by_force(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_open(4, 6)
        for start in (1, 4):
            await place.lose_ledger(start)
        await place.process().call(Format(NAMESPACE, force=True))
        assert await place.ledgers() == set()
        assert await place.records() == {}
        with pytest.raises(StaleEpoch):
            await writer.finalize(4, 6)
        later = await next_writer(place.process())
        await later.write_final(1, 2)
        assert await logs(place.process()) == [(1, 2, False)]
