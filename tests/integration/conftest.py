"""Bookies of the test's own, in its process, and journals on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.wire.trust.roles import Role
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from tests.qjm_compat.transfer import one_journal, spoiled_journal
from tests.support.authority import TestAuthority
from tests.support.in_process import QUICK, InProcessCluster, cluster_of


@pytest.fixture
def meta(uri: str) -> str:
    """The option that names the metadata of the bookies in processes of their own."""
    return f"--metadata={uri}"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """Bookies b1, b2 and b3."""
    async with cluster_of(tmp_path, 3) as running:
        yield running


@pytest.fixture
async def client(cluster: InProcessCluster) -> AsyncIterator[LedgerClient]:
    """A client on them that soon gives up."""
    async with LedgerClient(cluster.uri, config=QUICK) as client:
        yield client


@pytest.fixture
async def log(client: LedgerClient) -> Log:
    """An empty log on them."""
    return await client.create_log("orders")


@pytest.fixture
async def of_role(tmp_path: Path) -> AsyncIterator[Callable[..., LedgerClient]]:
    """Makes a client with a certificate of that role, and owner, of three bookies that ask for one."""
    authority = TestAuthority(tmp_path)
    async with cluster_of(tmp_path, 3, authority.bookie) as cluster:

        def client_of(role: Role, owner: str = "") -> LedgerClient:
            config = replace(QUICK, certificates=str(authority.of(role, owner=owner)))
            return LedgerClient(cluster.uri, config=config)

        yield client_of


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
