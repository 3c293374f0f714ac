"""Batches as entries of a ledger, and back."""

from __future__ import annotations

import pytest

from qjm_compat import BadRequest, SegmentUnreadable
from qjm_compat.batch import BATCH_BYTES_MAX, PART_BYTES_MAX, Assembler, Batch, entries_of, header_of

SMALL = Batch(7, 2, b"two small edits", committed_txid=6, writer_epoch=3)
LARGE = Batch(9, 4, bytes(range(256)) * (PART_BYTES_MAX // 100), writer_epoch=3)


def fed(*payloads: bytes) -> list[Batch]:
    assembler = Assembler()
    found = [assembler.feed(payload) for payload in payloads]
    return [batch for batch in found if batch is not None]


@pytest.mark.parametrize(
    "size", [1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 2 * PART_BYTES_MAX, 3 * PART_BYTES_MAX]
)
def test_a_batch_becomes_as_many_entries_as_it_has_parts_and_comes_back_as_it_was(size: int) -> None:
    batch = Batch(1, 1, bytes(size), committed_txid=None, writer_epoch=1)
    entries = entries_of(batch)
    assert len(entries) == -(-size // PART_BYTES_MAX)
    assert [header_of(entry).part for entry in entries] == list(range(len(entries)))
    assert [header_of(entry).is_last_part for entry in entries] == [False] * (len(entries) - 1) + [True]
    assert fed(*entries) == [batch]


def test_every_entry_of_a_batch_says_which_transactions_the_whole_batch_has() -> None:
    for entry in entries_of(LARGE):
        header = header_of(entry)
        assert (header.first_txid, header.last_txid, header.writer_epoch) == (9, 12, 3)
        assert header.committed_txid is None


def test_a_batch_that_its_writer_gave_up_half_way_is_passed_over() -> None:
    parts = entries_of(LARGE)
    assert len(parts) == 3
    assert fed(*parts[:2], *entries_of(SMALL)) == [SMALL]
    assert fed(*parts[:2]) == []
    assert fed(*entries_of(SMALL), *parts) == [SMALL, LARGE]


def test_a_part_behind_another_batch_or_behind_a_gap_is_an_error() -> None:
    parts = entries_of(LARGE)
    for wrong in ([parts[1]], [parts[0], parts[2]], [*entries_of(SMALL), parts[2]], [*parts, parts[1]]):
        with pytest.raises(SegmentUnreadable, match="follows another batch"):
            fed(*wrong)
    with pytest.raises(SegmentUnreadable, match="follows another batch"):
        fed(parts[0], entries_of(Batch(10, 4, LARGE.records))[1])


def test_what_no_writer_of_journals_wrote_is_refused() -> None:
    good = entries_of(SMALL)[0]
    no_txns = entries_of(Batch(7, 0, b""))[0]
    no_txid = entries_of(Batch(0, 1, b""))[0]
    for payload in (b"", b"hello", good[:31], b"\x02" + good[1:], no_txns, no_txid):
        with pytest.raises(SegmentUnreadable):
            header_of(payload)


def test_a_batch_over_the_limit_is_refused_before_anything_of_it_is_written() -> None:
    with pytest.raises(BadRequest, match="over the limit"):
        entries_of(Batch(1, 1, bytes(BATCH_BYTES_MAX + 1)))
