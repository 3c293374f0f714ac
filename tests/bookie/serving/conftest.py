"""What tests of a bookie's port begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bookie.serving.served import Client, served


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """Of a bookie on the test's directory."""
    async with served(tmp_path) as client:
        yield client
