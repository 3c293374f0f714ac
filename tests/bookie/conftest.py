"""What tests of a bookie begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bookie.serving.directory import format_directory
from bookie.storage.bookie import Bookie
from metadata.memory_store import MemoryStore
from tests.bookie.bookies import bookie_on
from tests.bookie.logs import INCARNATION


@pytest.fixture
async def bookie(tmp_path: Path) -> AsyncIterator[Bookie]:
    """One on the test's directory."""
    async with bookie_on(tmp_path) as bookie:
        yield bookie


@pytest.fixture
async def formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a cookie, which commands need beside log and index."""
    with monkeypatch.context() as patch:
        patch.setattr("uuid.uuid4", lambda: INCARNATION)
        await format_directory(tmp_path / "b1", "b1", MemoryStore())
    return tmp_path / "b1"
