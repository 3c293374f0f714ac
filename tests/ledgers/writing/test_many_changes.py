"""A client with thousands of open ledgers loses a bookie of all of them at once."""

from __future__ import annotations

import asyncio

import pytest

from bookie.wire import InfoReply
from ledgers import cluster as module
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.writing.write_handle import WriteHandle
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.ledgers.writing.writing import ENSEMBLE, HeldBookies, turns


class Counting(HeldBookies):
    """Counts who looks for a replacement at a time: each asks the bookie whose place it is first."""

    def __init__(self) -> None:
        super().__init__()
        self.looking = self.most = 0

    async def info(self, bookie: BookieRef) -> InfoReply:
        self.looking += 1
        self.most = max(self.most, self.looking)
        await asyncio.sleep(0)
        self.looking -= 1
        raise BookieUnavailable(str(bookie), "silent")


async def test_only_so_many_ledgers_are_changed_at_a_time_and_all_get_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHANGES_AT_ONCE_MAX", 4)
    bookies, store = Counting(), MemoryStore()
    ledgers = LedgerStore(store)
    cluster = Cluster(store, ledgers, bookies, ClientConfig())
    writers = []
    for ledger_id in range(1, 21):
        record = LedgerRecord(ledger_id, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),))
        created, key = await ledgers.create(record), LedgerKey(ledger_id, b"")
        writers.append(WriteHandle(cluster, created, Crc32cDigester(ledger_id), key))
    for lane in bookies.lanes[::3]:
        lane.listener.failed("gone")
    for _ in range(20):
        await turns()
    assert 0 < bookies.most <= 4
    assert [writer._machine._waiting_to_retry for writer in writers] == [True] * 20
    for writer in writers:
        await writer.abandon()
