"""What tests of upkeep begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from metadata.memory_store import MemoryStore
from metadata.records.ledger_store import LedgerStore
from tests.bookie.upkeep.replicas import Mended, mended


@pytest.fixture
def ledgers() -> LedgerStore:
    return LedgerStore(MemoryStore())


@pytest.fixture
async def world(tmp_path: Path, ledgers: LedgerStore) -> AsyncIterator[Mended]:
    """A bookie on the test's directory, with repair and scrubber."""
    async with mended(tmp_path, ledgers) as world:
        yield world
