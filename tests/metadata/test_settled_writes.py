"""M1: a compare-and-swap whose answer is lost is made once, and a nonce tells whether it succeeded (F17)."""

from __future__ import annotations

import pytest

from metadata import settled_writes
from metadata.errors import (
    KeyExists,
    OutcomeUnknown,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    VersionConflict,
)
from metadata.version import NO_VERSION
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

LOST, FULL = OutcomeUnknown("the answer was lost"), StoreFull("no space is left")


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


def lose_answers(store: FaultyStore, *done: bool, error: Exception = LOST) -> None:
    """Of the next writes, whether each of them is made or not."""
    for one in done:
        store.fail(error, bad=1, done=one)


@pytest.mark.parametrize("done", [[True], [False], [False, True], [True, False]])
async def test_M1_a_replace_whose_answer_was_lost_is_made_exactly_once(
    store: FaultyStore, done: list[bool]
) -> None:
    version = await store.create("k", b"before")
    lose_answers(store, *done)
    new_version = await settled_writes.replace(store, "k", b"mine, with a nonce", version)
    found = there(await store.get("k"))
    assert (found.value, found.version) == (b"mine, with a nonce", new_version)
    assert new_version == version + 1, "applied once"


@pytest.mark.parametrize("done", [[True], [False, True]])
async def test_M1_a_create_whose_answer_was_lost_is_recognised_as_ones_own(
    store: FaultyStore, done: list[bool]
) -> None:
    lose_answers(store, *done)
    version = await settled_writes.create(store, "k", b"mine, with a nonce")
    found = there(await store.get("k"))
    assert (found.value, found.version) == (b"mine, with a nonce", version)


async def test_M1_anothers_change_is_a_conflict_even_after_a_lost_answer(store: FaultyStore) -> None:
    version = await store.create("k", b"before")
    await store.replace("k", b"another's", version)
    lose_answers(store, False)
    with pytest.raises(VersionConflict):
        await settled_writes.replace(store, "k", b"mine", version)
    with pytest.raises(KeyExists):
        await settled_writes.create(store, "k", b"mine")


async def test_an_outcome_that_stays_unknown_is_told_as_unknown(store: FaultyStore) -> None:
    version = await store.create("k", b"before")
    store.fail(LOST)
    with pytest.raises(OutcomeUnknown):
        await settled_writes.replace(store, "k", b"mine", version, seconds_max=0.2)


async def test_a_store_that_refuses_is_not_asked_again(store: FaultyStore) -> None:
    store.fail(StoreRefused("permission denied"), bad=1)
    with pytest.raises(StoreUnavailable):
        await settled_writes.create(store, "k", b"mine")
    assert store.calls["create"] == 1


@pytest.mark.parametrize("is_new", [True, False])
async def test_M1_a_full_store_is_asked_once_and_reading_back_tells_whether_it_made_the_change(
    store: FaultyStore, is_new: bool
) -> None:
    version = NO_VERSION if is_new else await store.create("k", b"before")

    async def write() -> int:
        if is_new:
            return await settled_writes.create(store, "k", b"mine")
        return await settled_writes.replace(store, "k", b"mine", version)

    lose_answers(store, False, error=FULL)
    # A second try would be made.
    with pytest.raises(StoreRefused, match="nothing was changed: no space is left"):
        await write()
    lose_answers(store, True, error=FULL)
    now = await write()
    found = await store.get("k")
    assert found is not None and (found.value, found.version) == (b"mine", now)


async def test_M1_a_full_store_does_not_settle_an_answer_that_was_lost_before(
    store: FaultyStore,
) -> None:
    """The lost one may be applied once there is room."""
    lose_answers(store, False)
    store.fail(FULL)
    with pytest.raises(OutcomeUnknown, match="the answer was lost"):
        await settled_writes.create(store, "k", b"mine", seconds_max=0.0)
    store.heal()
    lose_answers(store, False)
    lose_answers(store, False, error=FULL)
    assert await settled_writes.create(store, "k", b"mine") == 1
