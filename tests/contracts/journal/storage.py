"""Formatting, upgrading, rolling back and discarding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metadata.records.journal_record import JournalStorage
from qjm_compat.errors import (
    BadJournalState,
    JournalError,
    JournalNotEmpty,
    JournalNotFormatted,
    StaleEpoch,
)
from qjm_compat.requests import (
    CanRollBack,
    DiscardSegments,
    DoFinalize,
    DoPreUpgrade,
    DoRollback,
    DoUpgrade,
    Format,
    GetEditLogManifest,
    GetJournalCTime,
    GetJournaledEdits,
    GetJournalState,
    GetStorageInfo,
    IsFormatted,
    NewEpoch,
    Request,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    content,
    edits,
    logs,
    next_writer,
)
from tests.qjm_compat.journals import LAYOUT, NAMESPACE

from .place import UPGRADED, InAPlace, Place, assert_shows, place_of


class Storage(InAPlace):
    """Part of the contract."""

    async def test_a_journal_is_formatted_once_unless_forced(self, place: Place) -> None:
        acceptor = place.process()
        assert not await acceptor.call(IsFormatted())
        with pytest.raises(BadJournalState, match="uninitialized namespace info"):
            await acceptor.call(Format(replace(NAMESPACE, namespace_id=0)))
        await acceptor.call(Format(NAMESPACE))
        elsewhere = place.process()
        assert await elsewhere.call(IsFormatted())
        assert await elsewhere.call(GetStorageInfo()) == JournalStorage(LAYOUT, 12345, "CID-test", 0)
        with pytest.raises(JournalNotEmpty, match="Can't format the storage directory because the current"):
            await elsewhere.call(Format(NAMESPACE))
        await elsewhere.call(Format(replace(NAMESPACE, cluster_id="CID-other"), force=True))
        assert (await acceptor.call(GetStorageInfo())).cluster_id == "CID-other"

    async def test_formatting_anew_deletes_all_edits_and_fences_the_writer(self, place: Place) -> None:
        writer = await self._writer(place, 5)
        await writer.write_final(1, 3)
        await writer.write_open(4, 5)
        elsewhere = place.process()
        await elsewhere.call(Format(NAMESPACE, force=True))
        assert await place.ledgers() == set()
        assert await place.records() == {}
        with pytest.raises(JournalError):
            await writer.send(4, 6)
        with pytest.raises(StaleEpoch, match="Proposed epoch 5 <= last promise 6"):
            await OneWriter(elsewhere, 5).new_epoch()
        assert await next_writer(elsewhere) is not None
        assert await logs(elsewhere) == []

    async def test_calls_on_a_journal_that_was_never_formatted_say_so(self, place: Place) -> None:
        acceptor = place.process()
        calls: list[Request[Any]] = [
            GetStorageInfo(),
            GetJournalState(),
            GetJournalCTime(),
            NewEpoch(NAMESPACE, 1),
            GetEditLogManifest(0),
            GetJournaledEdits(1, 10),
            DoPreUpgrade(),
            DoRollback(),
            DiscardSegments(1),
        ]
        for request in calls:
            with pytest.raises(JournalNotFormatted, match="Journal ns1 not formatted ; journal id: ns1"):
                await acceptor.call(request)

    async def test_an_upgrade_takes_two_steps_and_gives_a_new_layout_and_creation_time(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        acceptor = place_of(writer)
        with pytest.raises(BadJournalState, match="run doPreUpgrade first"):
            await acceptor.call(DoUpgrade(UPGRADED.storage))
        await acceptor.call(DoPreUpgrade())
        assert not await place.process().call(IsFormatted())
        with pytest.raises(JournalNotFormatted):
            await acceptor.call(DoPreUpgrade())
        await acceptor.call(DoUpgrade(UPGRADED.storage))
        elsewhere = place.process()
        assert await elsewhere.call(GetJournalCTime()) == 77
        assert await elsewhere.call(GetStorageInfo()) == UPGRADED.storage
        assert await logs(elsewhere) == [(1, 3, False)]
        with pytest.raises(BadJournalState, match="finalize the upgrade or roll it back"):
            await elsewhere.call(DoPreUpgrade())

    async def test_a_rollback_brings_back_what_was_there_and_never_an_epoch(self, place: Place) -> None:
        last = await self._upgraded_and_written_on(place)
        acceptor = place.process()
        assert await acceptor.call(CanRollBack(LAYOUT))
        with pytest.raises(JournalError, match="Cannot rollback to storage version -60"):
            await acceptor.call(CanRollBack(-60))
        await acceptor.call(DoRollback())
        assert await logs(acceptor) == [(1, 3, False)]
        assert await acceptor.call(GetStorageInfo()) == NAMESPACE.storage
        assert (await acceptor.call(GetJournalState())).last_promised_epoch == last.epoch + 1
        assert not await acceptor.call(CanRollBack(LAYOUT))
        with pytest.raises(BadJournalState, match="no previous state"):
            await acceptor.call(DoRollback())

    async def test_after_a_rollback_other_edits_take_the_place_of_those_rolled_back(
        self, place: Place
    ) -> None:
        await self._upgraded_and_written_on(place)
        acceptor = place.process()
        await acceptor.call(DoRollback())
        writer = await next_writer(acceptor)
        writer.committed_txid = 3
        await writer.write_final(4, 4)
        await writer.purge(1)
        assert await logs(place.process()) == [(1, 3, False), (4, 4, False)]
        assert await content(place.process(), 4) == edits(4, 4, writer.epoch)
        assert await content(place.process(), 1) == edits(1, 3, 1)
        assert len(await place.ledgers()) == 2

    async def test_a_rollback_before_the_second_step_gives_the_journal_back(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        acceptor = place.process()
        await acceptor.call(DoPreUpgrade())
        await acceptor.call(DoRollback())
        later = await next_writer(acceptor)
        await later.write_final(4, 5)
        await later.purge(1)
        assert await logs(place.process()) == [(1, 3, False), (4, 5, False)]

    async def test_what_is_discarded_and_written_anew_after_an_upgrade_comes_back_with_the_rollback(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_final(4, 6)
        acceptor = place_of(writer)
        await acceptor.call(DoPreUpgrade())
        await acceptor.call(DoUpgrade(UPGRADED.storage))
        await acceptor.call(DiscardSegments(1))
        later = await next_writer(acceptor)
        for first in (1, 3, 5):
            await later.write_final(first, first + 1)
        await later.purge(1)
        assert await logs(place.process()) == [(1, 2, False), (3, 4, False), (5, 6, False)]
        await place.process().call(DoRollback())
        assert await logs(place.process()) == [(1, 3, False), (4, 6, False)]
        assert await content(place.process(), 1) == edits(1, 3, 1)

    async def test_a_segment_finalized_before_an_upgrade_and_archived_after_it_outlives_the_rollback(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 3)
        await place.finalize_without_a_record(1, 3)
        acceptor = place.process()
        await acceptor.call(DoPreUpgrade())
        await acceptor.call(DoUpgrade(UPGRADED.storage))
        second = await next_writer(acceptor)
        await second.write_final(4, 6)
        await place.process().call(DoRollback())
        third = await next_writer(acceptor)
        await third.write_final(4, 4)
        await third.purge(1)
        assert await logs(place.process()) == [(1, 3, False), (4, 4, False)]
        assert await content(place.process(), 1) == edits(1, 3, 1)

    async def test_what_was_committed_in_a_journal_that_is_no_more_is_forgotten_by_every_process(
        self, place: Place
    ) -> None:
        await self._upgraded_and_written_on(place)
        old = place.process()
        assert (await (await next_writer(old)).prepare(7)).last_committed_txid == 6
        elsewhere = place.process()
        for change, committed in ((DoRollback(), 3), (DiscardSegments(4), 3), (Format(NAMESPACE, True), 0)):
            await elsewhere.call(change)
            later = await next_writer(old)
            later.committed_txid = committed
            await later.write_final(4, 6)
            later.committed_txid = 6
            await later.beat()

    async def test_finalizing_an_upgrade_gives_up_the_rollback_and_asks_for_nothing_twice(
        self, place: Place
    ) -> None:
        await self._upgraded_and_written_on(place)
        acceptor = place.process()
        await acceptor.call(DoFinalize())
        await acceptor.call(DoFinalize())
        assert not await acceptor.call(CanRollBack(LAYOUT))
        await assert_shows(acceptor, [(1, 3, False), (4, 6, False), (7, 7, True)])

    async def test_what_is_purged_after_an_upgrade_is_kept_for_the_rollback(self, place: Place) -> None:
        writer = await self._upgraded_and_written_on(place)
        await writer.purge(6)
        await writer.purge(1)
        acceptor = place.process()
        await assert_shows(acceptor, [(4, 6, False), (7, 7, True)])
        await acceptor.call(DoRollback())
        assert await content(place.process(), 1) == edits(1, 3, 1)

    async def test_discarding_forgets_segments_from_a_txid_on_and_what_was_committed_there(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        await writer.write_final(4, 6)
        writer.committed_txid = 8
        await writer.write_open(7, 9)
        acceptor = place.process()
        with pytest.raises(BadJournalState, match="it lies inside segment 4-6"):
            await acceptor.call(DiscardSegments(5))
        await acceptor.call(DiscardSegments(4))
        assert await logs(place.process()) == [(1, 3, False)]
        later = await next_writer(place.process())
        later.committed_txid = 3
        await later.write_final(4, 4)
        await later.purge(1)
        assert await logs(place.process()) == [(1, 3, False), (4, 4, False)]
        assert await content(place.process(), 4) == edits(4, 4, later.epoch)
        assert len(await place.ledgers()) == 2
        with pytest.raises(JournalError):
            await writer.send(7, 10)
