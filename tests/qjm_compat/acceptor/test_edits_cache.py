"""The latest edits of an acceptor, at hand in bounded memory."""

from __future__ import annotations

import pytest

from qjm_compat import EditsNotCached
from qjm_compat.acceptor.edits_cache import EditsCache
from qjm_compat.batch import Batch
from tests.qjm_compat.acceptor.one_writer import is_nothing
from tests.qjm_compat.journals import LAYOUT, frames

SIZE = len(frames(1000, 2))


def batch_of(first_txid: int, num_txns: int = 2, epoch: int = 1) -> Batch:
    return Batch(first_txid, num_txns, frames(first_txid, num_txns), None, epoch)


def filled(bytes_max: int, *batches: Batch) -> EditsCache:
    cache = EditsCache(bytes_max)
    for batch in batches:
        cache.store(batch, LAYOUT)
    return cache


def test_the_oldest_batches_go_when_there_are_more_bytes_than_may_be() -> None:
    cache = filled(5 * SIZE, *(batch_of(txid) for txid in range(1000, 1100, 2)))
    assert (cache.first_txid, cache.last_txid) == (1090, 1099)
    assert cache.retrieve(1090, 100).records == frames(1090, 10)
    with pytest.raises(EditsNotCached) as raised:
        cache.retrieve(1080, 100)
    assert raised.value.missing_txns == 10


def test_a_batch_larger_than_the_whole_cache_empties_it() -> None:
    cache = filled(3 * SIZE, batch_of(1000), batch_of(1002, 20))
    assert cache.last_txid is None
    with pytest.raises(EditsNotCached):
        cache.retrieve(1002, 1)


def test_exactly_the_edits_asked_for_are_given_also_from_within_batches() -> None:
    cache = filled(10 * SIZE, *(batch_of(txid) for txid in range(1000, 1010, 2)))
    for first in range(1000, 1010):
        for count in range(1, 12):
            given = cache.retrieve(first, count)
            assert given.txn_count == min(count, 1010 - first)
            assert given.records == frames(first, given.txn_count)


@pytest.mark.parametrize(("since_txid", "max_txns"), [(1004, 10), (1003, 0), (1000, 0)])
def test_who_has_everything_or_wants_nothing_is_given_no_edits_and_misses_none(
    since_txid: int, max_txns: int
) -> None:
    cache = filled(10 * SIZE, batch_of(1000), batch_of(1002))
    assert is_nothing(cache.retrieve(since_txid, max_txns))


@pytest.mark.parametrize("after", [batch_of(1003), batch_of(1001), batch_of(1002, epoch=2)])
def test_a_batch_that_does_not_follow_or_is_another_writers_begins_the_cache_anew(after: Batch) -> None:
    cache = filled(10 * SIZE, batch_of(1000), after)
    assert (cache.first_txid, cache.last_txid) == (after.first_txid, after.last_txid)
    assert cache.retrieve(after.first_txid, 10).records == after.records
