"""Where the acceptors of a contract's tests live, and what all parts of the contract share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

import pytest

from metadata.records.journal_record import JournalState
from qjm_compat.requests import (
    DoPreUpgrade,
    DoUpgrade,
)
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    ReadableAcceptor,
    formatted,
    logs,
    next_writer,
    writer_of,
)
from tests.qjm_compat.journals import NAMESPACE
from tests.support.aio import until_true

UPGRADED = replace(NAMESPACE, layout_version=-64, c_time=77)


class Place(Protocol):
    """Where the acceptors `a` and `b` of any number of journals live."""

    def process(self, name: str = "a", journal_id: str = "ns1") -> ReadableAcceptor:
        """Another process that serves the acceptor; what the last one remembered is not known to it."""
        ...

    async def state(self, name: str = "a", journal_id: str = "ns1") -> JournalState | None: ...

    async def ledgers(self, name: str = "a", journal_id: str = "ns1") -> set[int]:
        """Those that were not deleted."""
        ...

    async def records(self, name: str = "a", journal_id: str = "ns1") -> dict[int, int]:
        """The first and last txids of the finalized segments that have records of their own."""
        ...

    async def finalize_without_a_record(self, start_txid: int, end_txid: int) -> None:
        """What is left of a finalization that died when the state was written: segment finalized, record missing."""
        ...

    async def lose_ledger(self, start_txid: int) -> None:
        """The ledger of the segment at acceptor `a` is deleted, behind the journal's back."""
        ...


async def another_process(place: Place, writer: OneWriter) -> OneWriter:
    journal_id: str = getattr(writer.acceptor, "journal_id")  # noqa: B009 — not of the seam
    return OneWriter(place.process(journal_id=journal_id), writer.epoch)


def place_of(writer: OneWriter) -> ReadableAcceptor:
    acceptor: Any = writer.acceptor
    return acceptor  # type: ignore[no-any-return]


async def assert_shows(acceptor: ReadableAcceptor, expected: list[tuple[int, int, bool]]) -> None:
    """What is in progress is seen by another process soon: its writer tells the bookies that it is confirmed."""

    async def shown() -> bool:
        return await logs(acceptor) == expected

    try:
        async with asyncio.timeout(5):
            await until_true(shown)
    except TimeoutError:
        assert await logs(acceptor) == expected


class InAPlace(ABC):
    """A part of the contract: needs a place."""

    neighbours_only = False
    """Whether of the pairs of checks only those next to each other are tried, where each takes long."""

    @abstractmethod
    def new_place(self) -> AbstractAsyncContextManager[Place]:
        """A place of the test's own."""

    @pytest.fixture
    async def place(self) -> AsyncIterator[Place]:
        async with self.new_place() as place:
            yield place

    async def _writer(self, place: Place, epoch: int, journal_id: str = "ns1") -> OneWriter:
        """The first writer of a new journal."""
        acceptor = place.process(journal_id=journal_id)
        await formatted(acceptor)
        return await writer_of(acceptor, epoch)

    async def _upgraded_and_written_on(self, place: Place) -> OneWriter:
        """Segment 1-3 of writer 1; then, after an upgrade, 4-6 and 7 in progress of the next writer."""
        writer = await self._writer(place, 1)
        await writer.write_final(1, 3)
        acceptor = place.process()
        await acceptor.call(DoPreUpgrade())
        await acceptor.call(DoUpgrade(UPGRADED.storage))
        later = await next_writer(acceptor)
        await later.write_final(4, 6)
        later.committed_txid = 6
        await later.write_open(7, 7)
        return later
