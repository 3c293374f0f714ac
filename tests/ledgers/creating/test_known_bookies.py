"""The list of bookies is asked for once for creations one after the other, and anew where it does not suffice."""

from __future__ import annotations

import pytest

from ledgers.bookies.ensembles import first_fragment
from ledgers.creating import known_bookies
from ledgers.errors import NotEnoughBookies
from metadata.records.ledger_record import BookieRef, Shape
from tests.ledgers.bookies.answering import Answering, cluster_on, registers
from tests.support.faulty_store import FaultyStore

REFS = [BookieRef(f"b{n}", f"i{n}") for n in range(1, 5)]


async def test_creations_one_after_the_other_share_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore()
    cluster = await cluster_on(Answering(REFS), dict.fromkeys(REFS, ""), store=store)
    for _ in range(10):
        assert len((await first_fragment(cluster, Shape(3, 3, 2))).ensemble) == 3
    assert store.calls["list_page"] == 1
    monkeypatch.setattr(known_bookies, "KNOWN_SECONDS", 0.0)
    await first_fragment(cluster, Shape(3, 3, 2))
    assert store.calls["list_page"] == 2


async def test_a_bookie_that_has_just_joined_is_found_where_it_is_needed() -> None:
    store = FaultyStore()
    cluster = await cluster_on(Answering(REFS), dict.fromkeys(REFS[:3], ""), store=store)
    await first_fragment(cluster, Shape(3, 3, 2))
    with pytest.raises(NotEnoughBookies):
        await first_fragment(cluster, Shape(4, 3, 2))
    await registers(store, REFS[3])
    assert len((await first_fragment(cluster, Shape(4, 3, 2))).ensemble) == 4
