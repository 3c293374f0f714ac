"""The model of an acceptor keeps the contract: what is tested with it is tested with an acceptor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from metadata.records.journal_record import JournalState
from tests.contracts.journal_acceptor import SyncedAcceptorContract
from tests.qjm_compat.model import ModelAcceptor, ModelDisk


class ModelPlace:
    def __init__(self) -> None:
        self.disks: dict[str, dict[str, ModelDisk]] = {}

    def of(self, journal_id: str) -> dict[str, ModelDisk]:
        return self.disks.setdefault(journal_id, {"a": ModelDisk(), "b": ModelDisk()})

    def process(self, name: str = "a", journal_id: str = "ns1") -> ModelAcceptor:
        return ModelAcceptor(journal_id, name, self.of(journal_id))

    async def state(self, name: str = "a", journal_id: str = "ns1") -> JournalState | None:
        found = self.of(journal_id)[name].state
        return found.state if found is not None else None

    async def ledgers(self, name: str = "a", journal_id: str = "ns1") -> set[int]:
        return set(self.of(journal_id)[name].ledgers)

    async def records(self, name: str = "a", journal_id: str = "ns1") -> dict[int, int]:
        finalized = self.of(journal_id)[name].finalized
        return {start: found.segment.end_txid for start, found in finalized.items()}

    async def finalize_without_a_record(self, start_txid: int, end_txid: int) -> None:
        self.of("ns1")["a"].finalize_without_a_record(start_txid, end_txid)

    async def lose_ledger(self, start_txid: int) -> None:
        self.of("ns1")["a"].lose_ledger(start_txid)


class TestModelAcceptor(SyncedAcceptorContract):
    @asynccontextmanager
    async def new_place(self) -> AsyncIterator[ModelPlace]:
        yield ModelPlace()
