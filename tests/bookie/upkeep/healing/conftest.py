"""What tests of healing begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bookie.upkeep.healing.site import Healing, healing


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Healing]:
    async with healing(tmp_path) as one:
        yield one
