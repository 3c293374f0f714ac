"""What tests of a bookie begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bookie.storage.bookie import Bookie
from tests.bookie.bookies import bookie_on


@pytest.fixture
async def bookie(tmp_path: Path) -> AsyncIterator[Bookie]:
    """One on the test's directory."""
    async with bookie_on(tmp_path) as bookie:
        yield bookie
