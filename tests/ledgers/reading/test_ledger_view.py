"""What a reader knows of a ledger's record never goes back."""

from __future__ import annotations

import random

import pytest

from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import NoSuchLedger
from ledgers.integrity.digest import Crc32cDigester
from ledgers.reading.ledger_view import LedgerView
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord

OPEN = LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),))


def view_of(found: VersionedRecord) -> LedgerView:
    store, config = MemoryStore(), ClientConfig()
    cluster = Cluster(store, LedgerStore(store), ConnectedBookies(store, config), config, random.Random(0))
    return LedgerView(cluster, found, Crc32cDigester(7))


def test_a_watch_that_lags_behind_a_read_takes_nothing_back() -> None:
    """Else a closed ledger were open again, and its tail would never end."""
    view = view_of(VersionedRecord(OPEN, 1))
    view._take(VersionedRecord(OPEN.in_recovery().closed(4, 10), 3))
    view._take(VersionedRecord(OPEN.in_recovery(), 2))
    assert view.is_closed
    assert view.last_add_confirmed == 4


def test_a_lac_told_by_a_bookie_counts_until_the_ledger_is_closed() -> None:
    """F5: a bookie may have heard of more than the ledger kept."""
    view = view_of(VersionedRecord(OPEN, 1))
    view.note_lac(6)
    view.note_lac(5)
    assert view.last_add_confirmed == 6
    view._take(VersionedRecord(OPEN.in_recovery().closed(4, 10), 2))
    view.note_lac(6)
    assert view.last_add_confirmed == 4


def test_W4_what_lies_before_the_last_fragment_is_confirmed_whatever_bookies_have_heard() -> None:
    changed = OPEN.changed_ensemble(Fragment(10, (BookieRef("b2", "i2"),)))
    view = view_of(VersionedRecord(changed, 1))
    assert view.last_add_confirmed == 9
    view.note_lac(4)
    assert view.last_add_confirmed == 9
    view.note_lac(11)
    view._take(VersionedRecord(changed.in_recovery(), 2))
    assert view.last_add_confirmed == 11


def test_a_deleted_ledger_is_no_ledger() -> None:
    view = view_of(VersionedRecord(OPEN, 1))
    with pytest.raises(NoSuchLedger):
        view._take(None)
