"""What a log's writer keeps until it is confirmed, beside a list that keeps every entry by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledgers import NewRecord
from ledgers.entry import ENTRY_OVERHEAD_BYTES
from ledgers.logs.record_batch import encode
from ledgers.logs.writing.writer_state import UnconfirmedRecords

BATCHES = st.lists(
    st.lists(st.binary(max_size=5) | st.builds(NewRecord, st.binary(max_size=5)), min_size=1, max_size=4)
)
FIRST = 7


@given(BATCHES, st.data())
def test_records_are_dropped_and_given_again_as_the_entries_that_they_were(
    batches: list[list[bytes | NewRecord]], data: st.DataObject
) -> None:
    records, twin, first = UnconfirmedRecords(FIRST), list[bytes](), FIRST
    for time, batch in enumerate(batches):
        entries = encode(batch, time).entries()
        records.add(encode(batch, time), sum(map(len, entries)))
        twin += entries
        dropped = data.draw(st.integers(0, len(twin)))
        records.drop(first + dropped)
        first, twin = first + dropped, twin[dropped:]
        start = data.draw(st.integers(0, len(twin)))
        stop = data.draw(st.integers(start, len(twin)))
        found = records.between(first + start, first + stop)
        assert [entry for part in found for entry in part.entries()] == twin[start:stop]
        assert records.size_bytes == sum(map(len, twin)) + ENTRY_OVERHEAD_BYTES * len(twin)


def test_a_bare_payload_is_kept_as_it_came() -> None:
    """A writer keeps up to `pending_bytes_max`: a copy of each would take that once more."""
    payload = bytes(1000)
    assert encode([payload], 5).rests[0] is payload
