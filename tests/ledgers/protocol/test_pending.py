"""The window of unconfirmed entries, against a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX, of_payloads
from ledgers.protocol.pending import PendingEntries, batch_end

Batches = st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4), max_size=8)


@given(first=st.integers(0, 1000), before=st.integers(0, 10**6), batches=Batches, data=st.data())
def test_it_behaves_as_a_plain_list(
    first: int, before: int, batches: list[list[bytes]], data: st.DataObject
) -> None:
    pending, twin, confirmed = PendingEntries(first, before), list[bytes](), 0
    for payloads in batches:
        pending.push(of_payloads(first + len(twin), payloads, b"d" * len(payloads)))
        twin += payloads
        confirmed = data.draw(st.integers(confirmed, len(twin)))
        pending.confirm(first + confirmed - 1)

        assert pending.last_pushed == first + len(twin) - 1
        assert pending.confirmed_length() == before + sum(map(len, twin[:confirmed]))
        rows = [(i, bytes(p)) for columns in pending.unconfirmed() for i, p, _ in columns.rows()]
        assert rows == list(enumerate(twin[confirmed:], first + confirmed))
        assert pending.bytes >= sum(len(payload) for _, payload in rows)
        assert pending.bytes - sum(len(payload) for _, payload in rows) <= 5 * 4


def test_it_holds_nothing_once_all_is_confirmed() -> None:
    pending = PendingEntries(0, 0)
    pending.push(of_payloads(0, [b"abc", b"de"], b""))
    pending.confirm(1)
    assert (pending.bytes, pending.confirmed_length(), list(pending.unconfirmed())) == (0, 5, [])


def test_entries_follow_one_another() -> None:
    pending = PendingEntries(4, 0)
    with pytest.raises(AssertionError):
        pending.push(of_payloads(5, [b"a"], b""))


def test_confirming_never_goes_back_nor_past_what_was_pushed() -> None:
    pending = PendingEntries(0, 0)
    pending.push(of_payloads(0, [b"a", b"b"], b""))
    pending.confirm(0)
    with pytest.raises(AssertionError):
        pending.confirm(-1)
    with pytest.raises(AssertionError):
        pending.confirm(2)


def test_a_batch_holds_so_many_entries_at_most_wherever_it_begins() -> None:
    payloads = [b""] * (3 * FRAME_ENTRIES_MAX)
    for start in (0, 1, 5, FRAME_ENTRIES_MAX - 1, FRAME_ENTRIES_MAX + 7):
        assert batch_end(payloads, start) == start + FRAME_ENTRIES_MAX
    assert batch_end(payloads, len(payloads) - 2) == len(payloads)


def test_a_batch_ends_before_the_entry_that_would_not_fit_and_one_large_entry_is_a_batch() -> None:
    half = bytes(FRAME_BYTES_MAX // 2)
    assert batch_end([half, half, b"x", b"y"], 0) == 2
    large = bytes(FRAME_BYTES_MAX + 1)
    assert batch_end([large, b"x"], 0) == batch_end([b"x", large], 0) == 1
