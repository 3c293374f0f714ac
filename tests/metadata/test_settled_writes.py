"""Compare-and-swap whose answer is lost (rule M1, F17)."""

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
from metadata.memory import MemoryStore
from tests.support.present import there


class LosesAnswers(MemoryStore):
    """A store whose next writes are applied, or not, and answered with OutcomeUnknown either way."""

    def __init__(self) -> None:
        super().__init__()
        self.fates: list[str] = []
        self.sent: list[tuple[str, bytes]] = []

    async def create(self, key: str, value: bytes, *, lease: object = None, unless: str | None = None) -> int:
        self.sent.append((key, value))
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "refused":
            raise StoreRefused("permission denied")
        if "not applied" not in fate:
            version = await super().create(key, value, unless=unless)
        if fate:
            raise StoreFull("no space is left") if "full" in fate else OutcomeUnknown("the answer was lost")
        return version

    async def replace(
        self, key: str, value: bytes, version: int, *, unless: str | None = None, begins: bytes = b""
    ) -> int:
        self.sent.append((key, value))
        fate = self.fates.pop(0) if self.fates else ""
        if "not applied" not in fate:
            version = await super().replace(key, value, version, unless=unless, begins=begins)
        if fate:
            raise StoreFull("no space is left") if "full" in fate else OutcomeUnknown("the answer was lost")
        return version


@pytest.mark.parametrize(
    "fates", [["applied"], ["not applied"], ["not applied", "applied"], ["applied", "not applied"]]
)
async def test_M1_a_replace_whose_answer_was_lost_is_made_exactly_once(fates: list[str]) -> None:
    store = LosesAnswers()
    version = await store.create("k", b"before")
    store.fates = list(fates)
    new_version = await settled_writes.replace(store, "k", b"mine, with a nonce", version)
    found = there(await store.get("k"))
    assert (found.value, found.version) == (b"mine, with a nonce", new_version)
    assert new_version == version + 1, "applied once"


@pytest.mark.parametrize("fates", [["applied"], ["not applied", "applied"]])
async def test_M1_a_create_whose_answer_was_lost_is_recognised_as_ones_own(fates: list[str]) -> None:
    store = LosesAnswers()
    store.fates = list(fates)
    version = await settled_writes.create(store, "k", b"mine, with a nonce")
    found = there(await store.get("k"))
    assert (found.value, found.version) == (b"mine, with a nonce", version)


async def test_M1_anothers_change_is_a_conflict_even_after_a_lost_answer() -> None:
    store = LosesAnswers()
    version = await store.create("k", b"before")
    store.fates = ["not applied"]
    await MemoryStore.replace(store, "k", b"another's", version)
    with pytest.raises(VersionConflict):
        await settled_writes.replace(store, "k", b"mine", version)
    with pytest.raises(KeyExists):
        await settled_writes.create(store, "k", b"mine")


async def test_an_outcome_that_stays_unknown_is_told_as_unknown() -> None:
    store = LosesAnswers()
    version = await store.create("k", b"before")
    store.fates = ["not applied"] * 1000
    with pytest.raises(OutcomeUnknown):
        await settled_writes.replace(store, "k", b"mine", version, seconds_max=0.2)


async def test_a_store_that_refuses_is_not_asked_again() -> None:
    store = LosesAnswers()
    store.fates = ["refused"]
    with pytest.raises(StoreUnavailable):
        await settled_writes.create(store, "k", b"mine")
    assert len(store.sent) == 1


@pytest.mark.parametrize("is_new", [True, False])
async def test_M1_a_full_store_is_asked_once_and_reading_back_tells_whether_it_made_the_change(
    is_new: bool,
) -> None:
    store = LosesAnswers()
    version = 0 if is_new else await store.create("k", b"before")

    async def write() -> int:
        if is_new:
            return await settled_writes.create(store, "k", b"mine")
        return await settled_writes.replace(store, "k", b"mine", version)

    store.fates, store.sent = ["not applied, full"], []
    with pytest.raises(StoreRefused, match="nothing was changed: no space is left"):
        await write()
    assert len(store.sent) == 1
    store.fates = ["applied, full"]
    now = await write()
    found = await store.get("k")
    assert found is not None and (found.value, found.version) == (b"mine", now)


async def test_M1_a_full_store_does_not_settle_an_answer_that_was_lost_before() -> None:
    """The lost one may be applied once there is room."""
    store = LosesAnswers()
    store.fates = ["not applied", "not applied, full", "not applied, full"]
    with pytest.raises(OutcomeUnknown, match="the answer was lost"):
        await settled_writes.create(store, "k", b"mine", seconds_max=0.0)
    store.fates = ["not applied", "not applied, full", ""]
    assert await settled_writes.create(store, "k", b"mine") == 1
