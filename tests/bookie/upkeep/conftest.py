"""What tests of upkeep begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bookie.upkeep.replicas import Mended, mended


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Mended]:
    """A bookie on the test's directory, with repair and scrubber."""
    async with mended(tmp_path) as world:
        yield world
