"""What a held key does by itself: it publishes, releases, and says why it cannot renew."""

from __future__ import annotations

import asyncio
import logging

import pytest

from metadata.errors import OutcomeUnknown, StoreUnavailable
from metadata.leases import held_name
from metadata.leases.held_key import HeldKey
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.journal_node import JournalNodeRecord
from metadata.store import MetadataStore, renewal_seconds
from qjm_compat.hadoop.server.lease import NameLease
from tests.contracts.lease_holder import ANOTHERS, NO_ANSWER, one_fault
from tests.support.aio import cancel, until_true
from tests.support.present import there

KEY = "held/key"
LEASE_SECONDS = 60.0
SHORT_LEASE_SECONDS = 3.0
"""A third of it passes before a renewal."""


@pytest.fixture
def store() -> MetadataStore:
    return MemoryStore(MemoryData())


def held_key(store: MetadataStore, lease_seconds: float = LEASE_SECONDS) -> HeldKey:
    return HeldKey(store, KEY, lease_seconds, lambda nonce: nonce, "the key of the test")


async def test_inside_the_block_the_key_is_kept_and_behind_it_is_gone_with_its_lease(
    store: MetadataStore,
) -> None:
    held = held_key(store)
    before = asyncio.all_tasks()
    async with held.kept() as is_ours:
        assert is_ours and held.why_lost == ""
        renewed_at = held._renewed_at
        held.changed.set()
        await until_true(lambda: held._renewed_at > renewed_at)
    assert await store.get(KEY) is None
    assert held.why_lost != "" and asyncio.all_tasks() == before


async def test_a_block_whose_key_is_anothers_leaves_that_alone(store: MetadataStore) -> None:
    await store.create(KEY, ANOTHERS)
    async with held_key(store).kept() as is_ours:
        assert not is_ours
    assert there(await store.get(KEY)).value == ANOTHERS


async def test_a_value_that_changed_while_the_creation_had_no_answer_is_published_at_once(
    store: MetadataStore,
) -> None:
    value = b"1"
    held = HeldKey(store, KEY, LEASE_SECONDS, lambda nonce: value + nonce, "the key of the test")
    one_fault(store, "create", OutcomeUnknown("no answer"), done=True)
    with pytest.raises(OutcomeUnknown):
        await held.take()
    value = b"2"
    assert await held.take()
    keeping = asyncio.create_task(held.keep())
    try:
        async with asyncio.timeout(renewal_seconds(LEASE_SECONDS) / 2):
            await until_true(lambda: there(held.stands).value.startswith(b"2"))
        assert there(await store.get(KEY)) == held.stands
    finally:
        await cancel(keeping)


async def test_a_renewal_that_fails_is_logged_with_the_reason_and_repeated(
    store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    held = held_key(store, SHORT_LEASE_SECONDS)
    async with held.kept():
        one_fault(store, "keep_lease", NO_ANSWER, done=False)
        await until_true(lambda: "cannot renew the lease of the key of the test" in caplog.text)
        assert "no answer" in caplog.text
        renewed_at = held._renewed_at
        await until_true(lambda: held._renewed_at > renewed_at)


async def test_a_name_that_cannot_be_taken_again_is_tried_at_the_pace_of_a_failure_and_says_why(
    store: MetadataStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    name = NameLease(store, JournalNodeRecord("j1", "host:8485", "host:8480", b"this run"), LEASE_SECONDS)
    await name.take()
    paces = list[bool]()

    def at_once(_: float, *, has_failed: bool = False) -> float:
        paces.append(has_failed)
        return 0.0

    monkeypatch.setattr(held_name, "renewal_seconds", at_once)
    one_fault(store, "create", StoreUnavailable("no answer"), done=False)
    found = there(name.held.stands)
    await store.delete(found.key, found.version)
    keeping = asyncio.create_task(name.keep())
    name.held.changed.set()
    try:
        await until_true(lambda: "again after losing it" in caplog.text)
    finally:
        await cancel(keeping)
    assert paces == [True]
    assert "cannot take" in caplog.text and "no answer" in caplog.text
