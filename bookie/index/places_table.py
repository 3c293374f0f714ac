"""LMDB tables of all live frames, and of each ledger's row count and hash, which reveal lost rows.

    places   (ledger, span class, first entry, position) → (last entry, entries, record bytes)
    sums     ledger → how many rows it has in places, and the exclusive-or of their hashes (`summed_table.py`)

The position is part of a place's key, so a frame never hides another one that begins at the same entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice, takewhile

import lmdb

from .frame_locations import KEY, SPAN_CLASSES, Frame, FrameLocation, from_row, key_of, reach, to_row
from .summed_table import NOTHING, SUM, Meta, Sum, SummedTable, sum_of

_LEDGER = struct.Struct(">Q")


class PlacesTable:
    """The tables `places` and `sums` of the index. All methods run in the caller's transaction."""

    def __init__(self, env: lmdb.Environment, meta: Meta) -> None:
        self.db = env.open_db(b"places")
        self.sums = SummedTable(env, b"sums", meta)

    def holding(
        self,
        txn: lmdb.Transaction,
        ledger_id: int,
        first_entry: int,
        last_entry: int,
        recent: Iterable[FrameLocation],
    ) -> Iterator[FrameLocation]:
        """Yields the frames that may hold entries in the range, including `recent` ones, in order, each once."""
        stored = [
            self._stored(txn, ledger_id, span, reach(span, first_entry), last_entry)
            for span in range(SPAN_CLASSES)
        ]
        before = None
        for place in merge(*stored, recent):
            if place != before and place.last_entry >= first_entry:
                yield place
            before = place

    def _stored(
        self, txn: lmdb.Transaction, ledger_id: int, span: int, low: int, high: int
    ) -> Iterator[FrameLocation]:
        cursor = txn.cursor(self.db)
        if not cursor.set_range(KEY.pack(ledger_id, span, low, 0)):
            return
        for key, value in cursor:
            ledger, found_span, place = from_row(key, value)
            if ledger != ledger_id or found_span != span or place.first_entry > high:
                return
            yield place

    def all(self, txn: lmdb.Transaction, ledger_id: int | None = None) -> Iterator[Frame]:
        """Yields every frame; if `ledger_id` is given, only that ledger's frames."""
        cursor = txn.cursor(self.db)
        if not cursor.set_range(KEY.pack(ledger_id or 0, 0, 0, 0)):
            return
        for key, value in cursor:
            owner, _, place = from_row(key, value)
            if ledger_id is not None and owner != ledger_id:
                return
            yield owner, place

    def has(self, txn: lmdb.Transaction, frame: Frame) -> bool:
        return txn.get(key_of(*frame), db=self.db) is not None

    def is_whole(self, txn: lmdb.Transaction, ledger_id: int) -> bool:
        """Returns whether all rows of the ledger are present and unchanged. Takes time proportional to their number."""
        rows = txn.cursor(self.db)
        if not rows.set_range(KEY.pack(ledger_id, 0, 0, 0)):
            return self._sum_of(txn, ledger_id) == NOTHING
        theirs = takewhile(lambda row: KEY.unpack(row[0])[0] == ledger_id, rows)
        return self._sum_of(txn, ledger_id) == sum_of(theirs)

    # --- changes ----------------------------------------------------------------------------

    def add(self, txn: lmdb.Transaction, frames: Iterable[Frame]) -> None:
        for ledger_id, places in groupby(frames, key=lambda frame: frame[0]):
            rows = [to_row(*frame) for frame in places]
            new = [row for row in rows if txn.put(*row, overwrite=False, db=self.db)]
            self._change_sum(txn, ledger_id, added=new)

    def delete(self, txn: lmdb.Transaction, places: Iterable[Frame]) -> list[Frame]:
        """Deletes these rows; returns those that existed."""
        gone = [found for found in places if txn.delete(key_of(*found), db=self.db)]
        for ledger_id, frames in groupby(gone, key=lambda frame: frame[0]):
            self._change_sum(txn, ledger_id, gone=[to_row(*frame) for frame in frames])
        return gone

    def _change_sum(
        self,
        txn: lmdb.Transaction,
        ledger_id: int,
        added: Sequence[tuple[bytes, bytes]] = (),
        gone: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        before, more, less = self._sum_of(txn, ledger_id), sum_of(added), sum_of(gone)
        now = Sum(before.rows + more.rows - less.rows, before.hashes ^ more.hashes ^ less.hashes)
        self.sums.put(txn, _LEDGER.pack(ledger_id), SUM.pack(*now))

    def forget_some(self, txn: lmdb.Transaction, ledger_id: int, rows_max: int) -> bool:
        """Deletes at most `rows_max` of the ledger's rows; returns whether there may be more."""
        cursor = txn.cursor(self.db)
        cursor.set_range(KEY.pack(ledger_id, 0, 0, 0))
        theirs = takewhile(lambda row: KEY.unpack(row[0])[0] == ledger_id, cursor)
        rows = [(bytes(key), bytes(value)) for key, value in islice(theirs, rows_max)]
        for key, _ in rows:
            txn.delete(key, db=self.db)
        self._change_sum(txn, ledger_id, gone=rows)
        return len(rows) == rows_max

    def _sum_of(self, txn: lmdb.Transaction, ledger_id: int) -> Sum:
        value = self.sums.get(txn, _LEDGER.pack(ledger_id))
        return NOTHING if value is None else Sum(*SUM.unpack(value))
