"""Whose key it is that a bookie shows which wants to copy: strangers delay nobody, and the dead are not believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bookie.serving.lookups import registered_keys
from bookie.serving.lookups.registered_keys import RegisteredKeys
from metadata.errors import StoreUnavailable
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from tests.support.faulty_store import FaultyStore

OURS = b"k" * 32


@asynccontextmanager
async def registered() -> AsyncIterator[tuple[FaultyStore, RegisteredKeys]]:
    store = FaultyStore()
    one = Registration(BookieRef("b1", "i1"), "127.0.0.1:1", reading_key=OURS)
    await store.create(one.key, one.encode())
    yield store, RegisteredKeys(store)


async def test_strangers_with_keys_of_their_own_do_not_delay_a_bookie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registered_keys, "LOOK_SECONDS_MIN", 0.05)
    async with registered() as (store, keys):
        strangers = [bytes([n]) * 32 for n in range(50)]
        answers = await asyncio.gather(*map(keys.hold, [*strangers, OURS]))
        assert answers == [False] * 50 + [True]
        assert store.calls["list_page"] <= 2
        await asyncio.gather(*map(keys.hold, strangers))
        assert store.calls["list_page"] <= 4
        assert await keys.hold(OURS)
        assert store.calls["list_page"] <= 4


async def test_what_was_known_is_believed_for_a_while_without_the_metadata_and_then_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registered_keys, "LOOK_SECONDS_MIN", 0.0)
    async with registered() as (store, keys):
        assert await keys.hold(OURS)
        store.fail(StoreUnavailable("away"), calls=["list_page"])
        assert await keys.hold(OURS)
        assert not await keys.hold(b"x" * 32)
        assert await keys.hold(OURS)
        monkeypatch.setattr(registered_keys, "KNOWN_SECONDS_MAX", 0.0)
        assert not await keys.hold(OURS)
