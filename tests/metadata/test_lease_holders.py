"""Everybody who holds a key under a lease keeps the same contract, on every kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bookie.upkeep.healing import auditor, replication_worker
from bookie.upkeep.healing.auditor import Auditor
from metadata.leases.held_key import HeldKey
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore
from tests.bookie.upkeep.healing.site import CONFIG, NOW, Healing, healing
from tests.bookie.upkeep.replicas import ME, DictionaryPeers
from tests.contracts.lease_holder import LEASE_SECONDS, LeaseHolderContract
from tests.support.lease_holders import ClaimHolder, Holder, candidate, name_lease, registrar


class TestRegistrar(LeaseHolderContract):
    def holder(self, store: MetadataStore) -> Holder:
        return registrar(store, LEASE_SECONDS)


class TestNameLease(LeaseHolderContract):
    def holder(self, store: MetadataStore) -> Holder:
        return name_lease(store, LEASE_SECONDS)


class TestPlace(LeaseHolderContract):
    takes_again = False

    def holder(self, store: MetadataStore) -> Holder:
        return candidate(store, LEASE_SECONDS)


class AuditorHolder(Holder):
    def __init__(self, store: MetadataStore) -> None:
        self.auditor = Auditor(store, ME, CONFIG, lambda: NOW, DictionaryPeers(LedgerStore(store)))

    @property
    def held(self) -> HeldKey:
        return self.auditor._held

    async def take(self) -> None:
        await self.auditor._is_elected()

    async def renew(self) -> None:
        await self.auditor._is_elected()


class TestAuditor(LeaseHolderContract):
    @pytest.fixture(autouse=True)
    def _long_lease(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(auditor, "LEASE_SECONDS", LEASE_SECONDS)

    def holder(self, store: MetadataStore) -> Holder:
        return AuditorHolder(store)


class TestClaim(LeaseHolderContract):
    takes_again = False

    @pytest.fixture(autouse=True)
    async def _worker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        monkeypatch.setattr(replication_worker, "CLAIM_LEASE_SECONDS", LEASE_SECONDS)
        async with healing(tmp_path) as self.site:
            yield

    site: Healing

    def holder(self, store: MetadataStore) -> Holder:
        self.site.worker._store = store
        return ClaimHolder(self.site.worker._claim(7))
