"""Stores of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from metadata import MetadataStore, opened_store
from metadata.memory_store import MemoryData, MemoryStore
from tests.support.etcd import EtcdServer


@pytest.fixture(params=["memory", "sqlite", "etcd"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    """Empty, of each kind in turn."""
    if request.param == "memory":
        yield MemoryStore(MemoryData())
        return
    uri = f"sqlite://{tmp_path}/m.db"
    if request.param == "etcd":
        server: EtcdServer = request.getfixturevalue("etcd")
        uri = f"etcd://{server.endpoint}/{uuid4().hex}"
    async with opened_store(uri, create=request.param == "sqlite") as store:
        yield store
