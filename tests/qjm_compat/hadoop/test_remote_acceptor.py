"""An acceptor behind Hadoop's wire keeps the acceptors' contract: nothing is lost on the way there and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ledgers.aio import LedgerClient
from qjm_compat.acceptor.copying import SegmentContent
from qjm_compat.hadoop.client.acceptor import RemoteAcceptor
from qjm_compat.requests import BatchDone, R, Request, SendEdits
from tests.contracts.journal_acceptor import JournalAcceptorContract
from tests.qjm_compat.acceptor.test_journal import CONFIG, RealPlace
from tests.support.in_process import QUICK, cluster_of
from tests.support.served_journal_node import served_node


class Behind:
    """A daemon of its own, begun when it is first asked, and the client of it."""

    def __init__(self, place: WirePlace, name: str, journal_id: str) -> None:
        self.name = name
        self.journal_id = journal_id
        self._place = place
        self._acceptor: RemoteAcceptor | None = None
        self._peers: dict[str, Any] = {}

    async def call(self, request: Request[R]) -> R:
        return await (await self.remote()).call(request)

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        return False

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        return await (await self.remote()).read_segment(start_txid, from_txid, in_progress_ok=in_progress_ok)

    async def close(self) -> None:
        if self._acceptor is not None:
            await self._acceptor.close()

    async def remote(self) -> RemoteAcceptor:
        if self._acceptor is None:
            for name in ("a", "b"):
                self._peers[name] = await self._place.served(name, self.journal_id, self._peers)
            self._acceptor = self._peers[self.name]
        assert self._acceptor is not None
        return self._acceptor


class WirePlace(RealPlace):
    """Every process is a daemon and a client of it."""

    def __init__(self, *arguments: Any, stack: AsyncExitStack) -> None:
        super().__init__(*arguments)
        self._stack = stack
        self._ports: list[tuple[str, int]] = []

    def process(self, name: str = "a", journal_id: str = "ns1") -> Any:
        return Behind(self, name, journal_id)

    async def served(self, name: str, journal_id: str, peers: dict[str, Any]) -> RemoteAcceptor:
        serving = served_node(name, self._cluster.store, self._client, CONFIG, self._ports)
        node = await self._stack.enter_async_context(serving)
        self._ports.append(("127.0.0.1", int(node.http_address.rpartition(":")[2])))
        acceptor = RemoteAcceptor(node.address, journal_id, peers)
        self._stack.push_async_callback(acceptor.close)
        return acceptor


class TestRemoteAcceptor(JournalAcceptorContract):
    neighbours_only = True

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path

    @asynccontextmanager
    async def new_place(self) -> AsyncIterator[RealPlace]:
        async with (
            cluster_of(self.path, 1) as cluster,
            LedgerClient(cluster.uri, config=QUICK) as client,
            AsyncExitStack() as stack,
        ):
            yield WirePlace(cluster, client, stack=stack)


NOT_OVER_THIS_WIRE = (
    # Hadoop's wire has 32 bits for some of these numbers, and the URL of a source is asked for before a recovery.
    "test_the_largest_and_the_smallest_numbers_that_a_journal_can_hold_are_kept",
    "test_an_upgrade_to_what_a_journal_cannot_hold_is_refused",
    "test_each_of_checks_1_to_3_fails_alone_and_the_earlier_of_two_is_the_one_that_answers",
    # A NameNode upgrades and discards under its own epoch, which stays: test_name_node_calls has what holds here.
    "test_a_change_of_the_whole_journal_ends_its_writer",
)
for name in NOT_OVER_THIS_WIRE:
    setattr(TestRemoteAcceptor, name, None)
