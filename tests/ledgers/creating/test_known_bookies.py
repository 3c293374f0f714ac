"""The list of bookies is asked for once for creations one after the other, and anew where it does not suffice."""

from __future__ import annotations

import random

import pytest

from ledgers.bookies.ensembles import first_fragment
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.creating import known_bookies
from ledgers.errors import NotEnoughBookies
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import Page
from tests.ledgers.bookies.test_replacements import Answering

REFS = [BookieRef(f"b{n}", f"i{n}") for n in range(1, 5)]


class Counted(MemoryStore):
    """Counts listings."""

    listings = 0

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        self.listings += 1
        return await super().list_page(prefix, after=after, limit=limit)


async def joins(store: MemoryStore, ref: BookieRef) -> None:
    registration = Registration(ref, f"{ref.bookie_id}:3181")
    await store.create(registration.key, registration.encode())


async def test_creations_one_after_the_other_share_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Counted()
    for ref in REFS:
        await joins(store, ref)
    config = ClientConfig()
    cluster = Cluster(store, LedgerStore(store), Answering(REFS, ()), config, random.Random(1))
    for _ in range(10):
        assert len((await first_fragment(cluster, Shape(3, 3, 2))).ensemble) == 3
    assert store.listings == 1
    monkeypatch.setattr(known_bookies, "KNOWN_SECONDS", 0.0)
    await first_fragment(cluster, Shape(3, 3, 2))
    assert store.listings == 2


async def test_a_bookie_that_has_just_joined_is_found_where_it_is_needed() -> None:
    store = Counted()
    for ref in REFS[:3]:
        await joins(store, ref)
    cluster = Cluster(store, LedgerStore(store), Answering(REFS, ()), ClientConfig(), random.Random(1))
    await first_fragment(cluster, Shape(3, 3, 2))
    with pytest.raises(NotEnoughBookies):
        await first_fragment(cluster, Shape(4, 3, 2))
    await joins(store, REFS[3])
    assert len((await first_fragment(cluster, Shape(4, 3, 2))).ensemble) == 4
