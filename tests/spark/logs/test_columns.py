"""Columns of a log's records against the decoder of single records."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire.columnar_entries import Columns, of_payloads
from ledgers import NewRecord, RecordUnreadable
from ledgers.logs.record_batch import Numbered, decode, encode
from spark.logs.columns import TYPES, LogColumns, TimeRange

NAMES = list(TYPES)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "payload": st.binary(max_size=40),
    "key": st.none() | st.binary(max_size=300),
    "headers": st.dictionaries(TEXTS, st.binary(max_size=300), max_size=5),
    "event_time": st.none() | INT64,
}
RECORDS = st.one_of(
    FIELDS["payload"],
    st.builds(NewRecord, **FIELDS),
    st.builds(Numbered, **FIELDS, producer=TEXTS, sequence=st.integers(0, 2**63 - 1)),
)


def page_of(entries: list[bytes], first_entry: int = 0) -> Columns:
    return of_payloads(first_entry, entries, digests=b"")


def entries_of(records: list[bytes | NewRecord], time: int) -> list[bytes]:
    return [entry for one in records for entry in encode([one], time).entries()]


def slow_rows(page: Columns, segment_start: int) -> list[dict[str, Any]]:
    found = decode(page, segment_start=segment_start)
    return [
        {
            "log": "orders",
            "position": one.position,
            "time": one.time,
            "key": one.key,
            "headers": list(one.headers.items()),
            "payload": one.payload,
            "event_time": one.event_time,
            "producer": one.producer,
            "sequence": one.sequence,
        }
        for one in found.records()
    ]


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Times as numbers: Python has no dates for some of them."""
    for name in ("time", "event_time"):
        place = batch.schema.get_field_index(name)
        if place >= 0:
            batch = batch.set_column(place, name, batch.column(place).view(pa.int64()))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@given(st.lists(RECORDS, max_size=12), st.integers(0, 2**62), st.integers(0, 2**40), st.integers(0, 2**40))
def test_each_record_is_a_row_with_the_fields_that_it_was_appended_with(
    records: list[bytes | NewRecord], time: int, first_entry: int, segment_start: int
) -> None:
    page = page_of(entries_of(records, time), first_entry)
    batch = LogColumns("orders", segment_start, TimeRange(), NAMES).batch(page)
    assert rows_of(batch) == slow_rows(page, segment_start)
    batch.validate(full=True)
    heads = LogColumns("orders", segment_start, TimeRange(), ["position", "time"]).batch(page)
    assert rows_of(heads) == [
        {name: row[name] for name in ("position", "time")} for row in slow_rows(page, segment_start)
    ]


@given(st.lists(st.integers(0, 9), max_size=12), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_records_of_other_times_are_left_out(
    times: list[int], start_us: int | None, stop_us: int | None
) -> None:
    page = page_of([entry for time in sorted(times) for entry in encode([b"%d" % time], time).entries()])
    batch = LogColumns("orders", 0, TimeRange(start_us, stop_us), ["payload"]).batch(page)
    chosen = [t for t in sorted(times) if (start_us or 0) <= t < (10 if stop_us is None else stop_us)]
    assert [int(payload) for payload in batch.column("payload").to_pylist()] == chosen


@given(st.lists(RECORDS, min_size=1, max_size=6), st.data())
def test_a_damaged_record_is_refused_as_the_decoder_of_records_refuses_it(
    records: list[bytes | NewRecord], data: st.DataObject
) -> None:
    entries = entries_of(records, 5)
    number = data.draw(st.integers(0, len(entries) - 1))
    damaged = bytearray(entries[number])
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    else:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    page = page_of([*entries[:number], bytes(damaged), *entries[number + 1 :]])
    columns = LogColumns("orders", 0, TimeRange(), NAMES)
    if (why := _refusal(page)) is not None:
        with pytest.raises(RecordUnreadable, match=f"^{re.escape(why)}$"):
            columns.batch(page)
        return
    for row, other in zip(rows_of(columns.batch(page)), slow_rows(page, 0), strict=True):
        assert dict(row.pop("headers")) == dict(other.pop("headers")), "a name may be there twice"
        assert row == other


def _refusal(page: Columns) -> str | None:
    try:
        decode(page, segment_start=0)
    except RecordUnreadable as error:
        return str(error)
    return None
