"""What everybody keeps who holds a key under a lease: for a registration, a name, an office, a place, a claim (M2).

A subclass makes one. It is run over every kind of store: `renew` has the next renewal come at once, so nothing waits
for a lease.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from metadata.errors import LeaseLost, OutcomeUnknown, StoreUnavailable
from metadata.leases import lease_clock
from metadata.leases.held_key import GONE, NOT_IN_TIME, RUN_OUT
from metadata.store import MetadataStore, Versioned
from tests.support.aio import until_true
from tests.support.lease_holders import Holder
from tests.support.present import there

LEASE_SECONDS = 60.0
"""It runs out in no test."""

NO_ANSWER = StoreUnavailable("no answer")
ANOTHERS = b"another's"


class LeaseHolderContract(ABC):
    """`takes_again`: whether one that has lost its key tries to get it back by itself."""

    takes_again = True

    @abstractmethod
    def holder(self, store: MetadataStore) -> Holder:
        """One that holds nothing yet."""

    @asynccontextmanager
    async def holding(self, store: MetadataStore) -> AsyncIterator[Holder]:
        holder = self.holder(store)
        try:
            await holder.take()
            assert holder.held.why_lost == ""
            yield holder
        finally:
            await holder.end()

    async def found(self, store: MetadataStore, holder: Holder) -> Versioned | None:
        return await store.get(holder.held._key)

    async def is_lost_aloud(
        self,
        store: MetadataStore,
        holder: Holder,
        before: Versioned,
        why: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """It says so at its next renewal. Then it has a key of another lease, or none."""
        await holder.renew()
        await until_true(lambda: f"was lost: {why}" in caplog.text)
        if not self.takes_again:
            assert holder.held.why_lost == why
            return
        await until_true(lambda: holder.held.why_lost == "")
        found = there(await self.found(store, holder))
        assert found == holder.held.stands
        assert found.value != before.value, "it would go with the older lease"

    async def test_a_key_that_somebody_deleted_is_missed_at_the_next_renewal(
        self, store: MetadataStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with self.holding(store) as holder:
            before = there(holder.held.stands)
            await store.delete(before.key, before.version)
            await self.is_lost_aloud(store, holder, before, GONE, caplog)

    async def test_a_store_that_was_emptied_has_lost_key_and_lease(
        self, store: MetadataStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with self.holding(store) as holder:
            before = there(holder.held.stands)
            await store.revoke_lease(there(holder.held._lease))
            await self.is_lost_aloud(store, holder, before, RUN_OUT, caplog)

    async def test_what_a_store_that_went_back_has_under_an_older_lease_is_not_taken_for_ones_own(
        self, store: MetadataStore
    ) -> None:
        async with self.holding(store) as holder:
            older = there(holder.held.stands)
            await store.revoke_lease(there(holder.held._lease))
            restored = await store.grant_lease(LEASE_SECONDS)
            await store.create(older.key, older.value, lease=restored)
            await holder.renew()
            await until_true(lambda: holder.held.stands != older)
            await store.revoke_lease(restored)
            if self.takes_again:
                await self.is_held_again(holder)
                assert await self.found(store, holder) == holder.held.stands
            else:
                assert await self.found(store, holder) is None

    async def is_held_again(self, holder: Holder) -> None:
        async def is_held() -> bool:
            await holder.renew()
            return holder.held.why_lost == ""

        await until_true(is_held)

    async def test_a_key_that_is_anothers_by_now_is_left_alone(self, store: MetadataStore) -> None:
        async with self.holding(store) as holder:
            before = there(holder.held.stands)
            await store.delete(before.key, before.version)
            await store.create(before.key, ANOTHERS)
            await holder.renew()
            await until_true(lambda: holder.held.why_lost == GONE)
        found = there(await store.get(before.key))
        assert found.value == ANOTHERS
        await store.delete(found.key, found.version)

    async def test_a_suspend_that_was_longer_than_the_lease_is_noticed_before_anything_is_asked(
        self, store: MetadataStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.holding(store) as holder:
            real = lease_clock.now
            monkeypatch.setattr(lease_clock, "now", lambda: real() + LEASE_SECONDS)
            assert holder.held.why_lost == NOT_IN_TIME
            await holder.renew()
            if self.takes_again:
                await until_true(lambda: holder.held.why_lost == "")

    @pytest.mark.parametrize("call", ["keep_lease", "get"])
    async def test_a_renewal_without_an_answer_loses_nothing_and_counts_for_nothing(
        self, store: MetadataStore, call: str
    ) -> None:
        async with self.holding(store) as holder:
            before, renewed_at = holder.held.stands, holder.held._renewed_at
            lost = one_fault(store, call, NO_ANSWER, done=True)
            await self.tried(holder)
            await lost.wait()
            assert (holder.held.why_lost, holder.held._renewed_at) == ("", renewed_at)
            await self.tried(holder)
            await until_true(lambda: holder.held._renewed_at > renewed_at)
            assert there(await self.found(store, holder)) == before

    async def tried(self, holder: Holder) -> None:
        with suppress(StoreUnavailable):
            await holder.renew()

    @pytest.mark.parametrize("done", [True, False])
    async def test_a_creation_whose_answer_was_lost_hinders_nobody_and_is_made_once(
        self, store: MetadataStore, done: bool
    ) -> None:
        one_fault(store, "create", OutcomeUnknown("no answer"), done=done)
        holder = self.holder(store)
        try:
            with pytest.raises(OutcomeUnknown):
                await holder.take()
            await holder.take()
            assert holder.held.why_lost == ""
            assert await self.found(store, holder) == holder.held.stands
        finally:
            await holder.end()

    async def test_a_lease_that_ends_before_the_key_is_made_is_another_one_at_the_next_try(
        self, store: MetadataStore
    ) -> None:
        one_fault(store, "create", LeaseLost(1), done=False)
        holder = self.holder(store)
        try:
            with pytest.raises(LeaseLost):
                await holder.take()
            await holder.take()
            assert await self.found(store, holder) == holder.held.stands
        finally:
            await holder.end()

    async def test_who_gives_up_leaves_no_key_and_where_the_store_is_silent_one_that_runs_out(
        self, store: MetadataStore
    ) -> None:
        async with self.holding(store) as holder:
            key = there(holder.held.stands).key
        assert await store.get(key) is None
        async with self.holding(store) as holder:
            key, lease = there(holder.held.stands).key, there(holder.held._lease)
            one_fault(store, "revoke_lease", NO_ANSWER, done=False)
        assert there(await store.lease_left(key)) <= LEASE_SECONDS
        await store.revoke_lease(lease)


def one_fault(store: MetadataStore, call: str, error: Exception, *, done: bool) -> asyncio.Event:
    """The next such call fails, done or not, and sets the event."""
    failed, real = asyncio.Event(), getattr(store, call)

    async def fails(*args: Any, **options: Any) -> Any:
        setattr(store, call, real)
        if done:
            await real(*args, **options)
        failed.set()
        raise error

    setattr(store, call, fails)
    return failed
