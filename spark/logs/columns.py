"""Builds Arrow columns of a log's records from a page's columns, without processing records one by one.

`ledgers.logs.record_batch` describes the format. Each field is decoded for all records of a page at once: each record
has a cursor that moves over the fields present in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgers import Columns
from ledgers.logs.record_batch import (
    EVENT_TIME,
    FIELDS,
    HEADERS,
    HEADERS_MAX,
    KEY,
    PRODUCER,
    VERSION,
    decode,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")

TYPES: dict[str, tuple[str, pa.DataType]] = {
    "log": ("string", pa.string()),
    "position": ("bigint", pa.int64()),
    "time": ("timestamp", TIMESTAMP),
    "key": ("binary", pa.binary()),
    "headers": ("map<string,binary>", pa.map_(pa.string(), pa.binary())),
    "payload": ("binary", pa.binary()),
    "event_time": ("timestamp", TIMESTAMP),
    "producer": ("string", pa.string()),
    "sequence": ("bigint", pa.int64()),
}
"""Every column: its Spark type and its Arrow type. A column is null if the record does not have the field."""

DEFAULT_COLUMNS = tuple(name for name in TYPES if name != "log")

OF_HEADS = frozenset({"log", "position", "time"})
"""Columns that do not require the optional fields to be decoded."""

TIME_BYTES = 8
"""Width of times and sequences, which are signed; other numbers are narrower and unsigned."""

Numbers = npt.NDArray[np.int64]


class TimeRange(NamedTuple):
    """Selects records of a segment by append time, in microseconds: from the first time (inclusive) to the last
    (exclusive)."""

    start_us: int | None = None
    stop_us: int | None = None


ALL_TIMES = TimeRange()


class LogColumns:
    """Builds record batches of the selected columns from the pages of one segment."""

    def __init__(self, log: str, segment_start: int, times: TimeRange, names: Sequence[str]) -> None:
        self.schema = pa.schema([(name, TYPES[name][1]) for name in names])
        self._log = log
        self._segment_start = segment_start
        self._times = times
        self._names = names

    def batch(self, page: Columns) -> pa.RecordBatch:
        """Returns one row for each record in the page whose time is selected.

        Raises RecordUnreadable for the first record that is damaged, is not a log record, or has a later version.
        """
        try:
            fields = _Fields(page, self._names)
            columns = [self._column(name, page, fields) for name in self._names]
        except (_Damaged, pa.ArrowInvalid):
            decode(page, segment_start=self._segment_start)
            raise
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return batch if self._times == ALL_TIMES else batch.filter(self._are_chosen(fields.times))

    def _column(self, name: str, page: Columns, fields: _Fields) -> pa.Array:
        match name:
            case "log":
                return pa.repeat(self._log, len(page))
            case "position":
                return pa.array(np.frombuffer(page.entry_ids, dtype="<i8") + self._segment_start)
            case "time":
                return pa.array(fields.times).view(TIMESTAMP)
        return fields.columns[name]

    def _are_chosen(self, times: Numbers) -> pa.Array:
        start_us, stop_us = self._times
        chosen = np.full(len(times), True)
        if start_us is not None:
            chosen &= times >= start_us
        if stop_us is not None:
            chosen &= times < stop_us
        return pa.array(chosen)


class _Damaged(Exception):
    """Raised if a record in the page cannot be decoded; `decode` then reports which one, and why."""


class _Fields:
    """The fields of all records of a page."""

    def __init__(self, page: Columns, names: Sequence[str]) -> None:
        cursors = self._cursors = _Cursors(page)
        everything = np.arange(len(page))
        version, present = cursors.numbers(everything, 1), cursors.numbers(everything, 1)
        if (version != VERSION).any() or (present > FIELDS).any():
            raise _Damaged
        self.times = cursors.numbers(everything, TIME_BYTES)
        self.columns: dict[str, pa.Array] = {}
        if OF_HEADS.issuperset(names):
            return
        having = {field: np.flatnonzero(present & field) for field in (EVENT_TIME, KEY, HEADERS, PRODUCER)}
        event_times = cursors.numbers(having[EVENT_TIME], TIME_BYTES)
        keys = cursors.spans(having[KEY], cursors.numbers(having[KEY], 2))
        headers = self._headers(having[HEADERS])
        producers = cursors.texts(having[PRODUCER])
        sequences = cursors.numbers(having[PRODUCER], TIME_BYTES)
        self.columns = {
            "event_time": _sparse(pa.array(event_times), having[EVENT_TIME], len(page)).view(TIMESTAMP),
            "key": _sparse(cursors.column(keys), having[KEY], len(page)),
            "headers": headers,
            "producer": _sparse(cursors.column(producers).cast(pa.string()), having[PRODUCER], len(page)),
            "sequence": _sparse(pa.array(sequences), having[PRODUCER], len(page)),
            "payload": cursors.column(_Spans(cursors.at, cursors.ends)),
        }

    def _headers(self, having: Numbers) -> pa.Array:
        """Returns the header maps of all records. Decodes the first header of each record that has any, then the
        second, and so on."""
        cursors = self._cursors
        counts = np.zeros(len(cursors.at), dtype="<i4")
        counts[having] = cursors.numbers(having, 1)
        if (counts[having] == 0).any() or counts.max(initial=0) > HEADERS_MAX:
            raise _Damaged
        having_nth = [having[counts[having] > number] for number in range(counts.max(initial=0))]
        names, values = [], []
        for rows in having_nth:
            names.append(cursors.texts(rows))
            values.append(cursors.spans(rows, cursors.numbers(rows, 2)))
        order = np.argsort(np.concatenate([np.zeros(0, "<i8"), *having_nth]), kind="stable")
        keys, items = (cursors.column(_joined(spans, order)) for spans in (names, values))
        ends = np.concatenate([np.zeros(1, "<i4"), np.cumsum(counts, dtype="<i4")])
        return pa.MapArray.from_arrays(pa.array(ends), keys.cast(pa.string()), items)


class _Spans(NamedTuple):
    """The starts and ends of parts of a page's payload, in ascending order and without overlaps."""

    starts: Numbers
    ends: Numbers


class _Cursors:
    """The offset of the next field of each record. Raises _Damaged if a field extends beyond the end of its record."""

    def __init__(self, page: Columns) -> None:
        self._payload = pa.py_buffer(page.payload)
        self._bytes = np.frombuffer(page.payload, dtype="u1")
        lengths = np.frombuffer(page.lengths, dtype="<u4").astype("<i8")
        self.ends: Numbers = np.cumsum(lengths)
        self.at: Numbers = self.ends - lengths

    def spans(self, rows: Numbers, sizes: Numbers) -> _Spans:
        """Consumes `sizes` bytes from each of these records, and returns their spans."""
        starts = self.at[rows]
        ends = starts + sizes
        if (ends > self.ends[rows]).any():
            raise _Damaged
        self.at[rows] = ends
        return _Spans(starts, ends)

    def numbers(self, rows: Numbers, width: int) -> Numbers:
        """Consumes a little-endian number from each of these records, and returns the numbers."""
        starts, _ = self.spans(rows, np.full(len(rows), width))
        found = self._bytes[starts[:, np.newaxis] + np.arange(width)]
        kind = np.dtype(f"<i{width}" if width == TIME_BYTES else f"<u{width}")
        return np.frombuffer(found.tobytes(), dtype=kind).astype("<i8")

    def texts(self, rows: Numbers) -> _Spans:
        """Consumes a text, preceded by its one-byte length, from each of these records, and returns the spans of the
        texts."""
        sizes = self.numbers(rows, 1)
        if (sizes == 0).any():
            raise _Damaged
        return self.spans(rows, sizes)

    def column(self, spans: _Spans) -> pa.Array:
        """Returns the bytes in these spans. Views the payload as alternating parts and gaps without copying it, then
        drops the gaps."""
        bounds = np.stack(spans, axis=1).reshape(-1).astype("<i4")
        if not len(bounds):
            return pa.array([], pa.binary())
        whole = pa.Array.from_buffers(
            pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), self._payload]
        )
        return whole.take(pa.array(np.arange(0, len(bounds) - 1, 2)))


def _joined(spans: Sequence[_Spans], order: Numbers) -> _Spans:
    none = np.zeros(0, "<i8")
    return _Spans(*(np.concatenate([none, *(one[n] for one in spans)])[order] for n in (0, 1)))


def _sparse(values: pa.Array, rows: Numbers, count: int) -> pa.Array:
    """Returns a column of `count` rows that contains the values in `rows`, and null in all other rows."""
    if len(rows) == count:
        return values
    places = np.zeros(count, dtype="<i8")
    places[rows] = np.arange(len(rows))
    absent = np.full(count, True)
    absent[rows] = False
    return values.take(pa.array(places, mask=absent))
