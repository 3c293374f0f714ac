"""Which ledgers hold a journal's transactions: one copy of each segment, and no gap between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import LedgerError
from metadata import opened_store
from metadata.records.journal_record import FinalizedSegment, JournalState, JournalStorage
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore
from spark.planning.journal_segments import finalized_segments
from tests.ledgers.reading.reading import DictionaryBookies, record_of

FORMATTED = JournalState(storage=JournalStorage(-63, 1, "CID"))


class Journals:
    """Journals made of records alone: no bookie has to live."""

    def __init__(self, uri: str, store: MetadataStore) -> None:
        self.uri = uri
        self._store = store

    async def acceptor(self, name: str, *segments: tuple[int, int, int]) -> None:
        """Finalized segments as (first txid, last txid, ledger)."""
        journal = JournalStore(self._store, "ns1", name)
        assert await journal.swap_state(FORMATTED, None)
        for start, end, ledger_id in segments:
            assert await journal.put_segment(FinalizedSegment(start, end, ledger_id, -63, 1, 0), None)

    async def ledgers(self, *ledger_ids: int) -> None:
        for ledger_id in ledger_ids:
            await LedgerStore(self._store).create(
                replace(record_of(DictionaryBookies([1])), ledger_id=ledger_id)
            )

    async def chosen(
        self, *acceptors: str, from_txid: int = 0, to_txid: int = 2**63 - 1
    ) -> list[tuple[int, int]]:
        """(first txid, ledger) of each segment."""
        found = await finalized_segments(self.uri, "ns1", acceptors, from_txid, to_txid)
        return [(segment.start_txid, segment.ledger_id) for segment in found]


@asynccontextmanager
async def journals(directory: Path) -> AsyncIterator[Journals]:
    uri = f"sqlite://{directory}/m.db"
    async with opened_store(uri, create=True) as store:
        yield Journals(uri, store)


async def test_a_copy_whose_ledger_is_gone_is_not_chosen_where_another_acceptor_has_one(
    tmp_path: Path,
) -> None:
    async with journals(tmp_path) as made:
        await made.acceptor("a", (1, 10, 101), (11, 20, 102))
        await made.acceptor("b", (1, 10, 201), (11, 20, 202))
        await made.ledgers(102, 201, 202)
        assert await made.chosen("a", "b") == [(1, 201), (11, 102)]
        assert await made.chosen("b", "a") == [(1, 201), (11, 202)]


async def test_a_segment_that_no_acceptor_can_give_stays_in_the_list_so_that_reading_it_fails(
    tmp_path: Path,
) -> None:
    async with journals(tmp_path) as made:
        await made.acceptor("a", (1, 10, 101))
        await made.acceptor("b", (1, 10, 201))
        assert await made.chosen("a", "b") == [(1, 101)]


async def test_an_acceptor_that_never_heard_of_the_journal_does_not_keep_others_from_giving_it(
    tmp_path: Path,
) -> None:
    async with journals(tmp_path) as made:
        await made.acceptor("b", (1, 10, 201))
        await made.ledgers(201)
        assert await made.chosen("a", "b", "c") == [(1, 201)]
        with pytest.raises(LedgerError, match="no journal ns1 at acceptor a or c"):
            await made.chosen("a", "c")


async def test_segments_that_one_acceptor_missed_come_from_another(tmp_path: Path) -> None:
    async with journals(tmp_path) as made:
        await made.acceptor("a", (1, 10, 101), (21, 30, 103))
        await made.acceptor("b", (11, 20, 202))
        await made.ledgers(101, 202, 103)
        assert await made.chosen("a", "b") == [(1, 101), (11, 202), (21, 103)]


async def test_a_gap_is_refused_and_what_stands_on_either_side_of_it_can_be_read(tmp_path: Path) -> None:
    async with journals(tmp_path) as made:
        await made.acceptor("a", (1, 10, 101), (21, 30, 103))
        await made.ledgers(101, 103)
        with pytest.raises(LedgerError, match="no finalized segment from txid 11 to 20"):
            await made.chosen("a")
        assert await made.chosen("a", to_txid=20) == [(1, 101)]
        assert await made.chosen("a", from_txid=11) == [(21, 103)]
