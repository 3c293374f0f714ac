"""Journals on bookies of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.qjm_compat.transfer import one_journal, spoiled_journal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[spoiled_journal.Journal]:
    """One of three acceptors, with two segments."""
    async with spoiled_journal.on_a_journal(tmp_path) as journal:
        yield journal


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[one_journal.Place]:
    """Where a journal of one acceptor can be made."""
    async with one_journal.on_a_journal(tmp_path) as place:
        yield place
