"""Epochs: who may write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qjm_compat.errors import (
    JournalError,
    StaleEpoch,
)
from qjm_compat.requests import (
    GetJournalState,
    NewEpoch,
    SegmentState,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    formatted,
    writer_of,
)
from tests.qjm_compat.journals import NAMESPACE

from .place import InAPlace, Place


class Promises(InAPlace):
    """Part of the contract."""

    async def test_a_promise_is_only_made_to_the_same_namespace_and_only_upwards(self, place: Place) -> None:
        acceptor = place.process()
        await formatted(acceptor)
        other_namespace = replace(NAMESPACE, namespace_id=9, cluster_id="CID-other")
        with pytest.raises(JournalError, match="Incompatible namespaceID for journal ns1"):
            await acceptor.call(NewEpoch(other_namespace, 0))
        with pytest.raises(JournalError, match="Incompatible clusterID for journal ns1"):
            await acceptor.call(NewEpoch(replace(NAMESPACE, cluster_id="CID-other"), 0))
        await acceptor.call(NewEpoch(replace(NAMESPACE, c_time=5, layout_version=-60), 3))
        for epoch in (0, 2, 3):
            with pytest.raises(
                StaleEpoch, match=f"Proposed epoch {epoch} <= last promise 3 ; journal id: ns1"
            ):
                await place.process().call(NewEpoch(NAMESPACE, epoch))
        assert (await place.process().call(GetJournalState())).last_promised_epoch == 3

    async def test_a_promise_names_the_latest_segment_that_holds_anything(self, place: Place) -> None:
        first = await self._writer(place, 1)
        assert (await OneWriter(first.acceptor, 2).new_epoch()).last_segment_txid is None
        second = OneWriter(first.acceptor, 2)
        await second.write_final(1, 3)
        assert (await OneWriter(place.process(), 3).new_epoch()).last_segment_txid == 1
        third = OneWriter(place.process(), 3)
        await third.write_open(4, 5)
        assert (await OneWriter(place.process(), 4).new_epoch()).last_segment_txid == 4
        fourth = OneWriter(place.process(), 4)
        await fourth.start(6)  # and nothing in it
        assert (await OneWriter(place.process(), 5).new_epoch()).last_segment_txid == 4

    async def test_an_old_writer_in_another_process_is_refused_by_the_ledger_itself(
        self, place: Place
    ) -> None:
        old = await self._writer(place, 1)
        await old.write_open(1, 2)
        new = await writer_of(place.process(), 2)
        with pytest.raises(StaleEpoch, match="fenced by a later writer"):
            await old.send(1, 3)
        assert (await new.prepare(1)).segment == SegmentState(1, 2, True, 1)
        for call in (old.start(9), old.finalize(1, 2), old.beat(), old.prepare(1), old.purge(1)):
            with pytest.raises(StaleEpoch, match=r"IPC's epoch 1 is less than the last promised epoch 2"):
                await call
