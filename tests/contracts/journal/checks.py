"""The checks that calls share (1 to 3), each call's own, and their order."""

from __future__ import annotations

from typing import Any

import pytest

from qjm_compat.errors import (
    BadRequest,
    JournalOutOfSync,
    StaleEpoch,
)
from qjm_compat.requests import (
    GetJournalState,
    Request,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    formatted,
    writer_of,
)

from .flaws import CHECKS, flawed_call, flawed_together
from .place import InAPlace, Place, assert_shows


class Checks(InAPlace):
    """Part of the contract."""

    @pytest.mark.parametrize("kind", CHECKS, ids=lambda kind: kind.__name__)
    async def test_each_of_checks_1_to_3_fails_alone_and_the_earlier_of_two_is_the_one_that_answers(
        self, kind: type[Request[Any]]
    ) -> None:
        async with self.new_place() as place:
            flawed = flawed_together(kind, neighbours_only=self.neighbours_only)
            for n, (wrong, first) in enumerate(flawed.items()):
                with pytest.raises(first.error) as caught:
                    await flawed_call(place, f"ns-{n}", kind, wrong)
                assert type(caught.value) is first.error
                assert first.message in str(caught.value), (wrong, str(caught.value))

    @pytest.mark.parametrize("kind", CHECKS, ids=lambda kind: kind.__name__)
    async def test_a_call_without_a_flaw_is_answered(self, kind: type[Request[Any]]) -> None:
        async with self.new_place() as place:
            await flawed_call(place, "ns1", kind, frozenset())

    async def test_a_number_is_used_up_even_when_the_committed_txid_is_refused(self, place: Place) -> None:
        writer = await self._writer(place, 1)
        writer.committed_txid = 5
        await writer.beat()
        writer.committed_txid = 4
        with pytest.raises(BadRequest, match="backward from 5 to 4"):
            await writer.beat()
        writer.committed_txid, writer.serial = 5, 1
        with pytest.raises(JournalOutOfSync, match=r"IPC serial 1 from client .*prior highest IPC serial 1"):
            await writer.beat()

    async def test_numbers_begin_anew_with_every_epoch_and_with_every_process(self, place: Place) -> None:
        first = await self._writer(place, 1)
        first.serial = 100
        await first.beat()
        second = await writer_of(first.acceptor, 2)
        await second.beat()
        again = OneWriter(place.process(), 2)
        await again.beat()

    async def test_the_first_number_is_0_also_where_nothing_was_promised_yet(self, place: Place) -> None:
        acceptor = place.process()
        await formatted(acceptor)
        writer = OneWriter(acceptor, 0)
        await writer.beat()
        writer.serial = 0
        with pytest.raises(JournalOutOfSync, match=r"IPC serial 0 from client .*prior highest IPC serial 0"):
            await writer.beat()

    async def test_numbers_begin_anew_when_the_epoch_was_promised_in_another_process(
        self, place: Place
    ) -> None:
        first = await self._writer(place, 1)
        first.serial = 100
        await first.beat()
        await OneWriter(place.process(), 2).new_epoch()
        await OneWriter(first.acceptor, 2).beat()

    async def test_a_later_epoch_in_any_call_is_promised_and_ends_the_earlier_writer(
        self, place: Place
    ) -> None:
        old = await self._writer(place, 1)
        await old.write_open(1, 2)
        elsewhere = OneWriter(place.process(), 4)
        await elsewhere.beat()
        assert (await elsewhere.acceptor.call(GetJournalState())).last_promised_epoch == 4
        with pytest.raises(StaleEpoch):
            await old.send(1, 3)
        await assert_shows(place.process(), [(1, 2, True)])

    async def test_committed_never_goes_back_and_is_learnt_from_the_ledger_by_another_process(
        self, place: Place
    ) -> None:
        writer = await self._writer(place, 1)
        await writer.write_open(1, 2)
        writer.committed_txid = 2
        await writer.send(1, 3)
        later = await writer_of(place.process(), 2)
        assert (await later.prepare(1)).last_committed_txid == 2
        later.committed_txid = 1
        with pytest.raises(BadRequest, match="backward from 2 to 1"):
            await later.beat()
