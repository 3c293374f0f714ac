"""A stream that ends with its test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .append_peer import Setting


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    made = Setting()
    yield made
    await made.stream.close()
