"""Disk usage by segment and ledger, changed in the same transactions as the places.

    usage    (segment, ledger) → (bytes of its frames there, number of its records there that are not frames)

Compaction and garbage collection use it to find segments whose bytes are mostly or entirely dead, without scanning all
frames.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple

import lmdb

from .frame_locations import FrameLocation
from .summed_table import Meta, SummedTable, readable

KEY = struct.Struct(">IQ")
VALUE = struct.Struct("<QI")


class Usage(NamedTuple):
    """Bytes of the frames that the index points to, and the number of other records."""

    frame_bytes: int
    states: int


NOTHING = Usage(0, 0)


class UsageTable:
    """An LMDB table of the index. Any thread may read it; changes are made in the caller's transaction."""

    def __init__(self, env: lmdb.Environment, meta: Meta) -> None:
        self._env = env
        self.table = SummedTable(env, b"usage", meta)

    def totals(self) -> dict[int, Usage]:
        """Returns the usage of each segment, summed over all ledgers; segments without contents are omitted.

        Of a ledger's records that are not frames, only the last one matters, so `states` in this result is the number
        of ledgers that have such records in the segment. Raises IndexDamaged if part of the table is lost: otherwise, a
        segment that only appears empty would be deleted.
        """
        frame_bytes: Counter[int] = Counter()
        states: Counter[int] = Counter()
        with readable(), self._env.begin() as txn:
            for key, value in self.table.rows(txn):
                segment = KEY.unpack(key)[0]
                held = Usage(*VALUE.unpack(value))
                frame_bytes[segment] += held.frame_bytes
                states[segment] += held.states > 0
        return {segment: Usage(size, states[segment]) for segment, size in frame_bytes.items()}

    def of(self, segment: int) -> dict[int, Usage]:
        """Returns the usage of one segment, by ledger."""
        found: dict[int, Usage] = {}
        with readable(), self._env.begin(db=self.table.db) as txn:
            cursor = txn.cursor()
            if not cursor.set_range(KEY.pack(segment, 0)):
                return found
            for key, value in cursor:
                number, ledger_id = KEY.unpack(key)
                if number != segment:
                    break
                found[ledger_id] = Usage(*VALUE.unpack(value))
        return found

    def change(
        self,
        txn: lmdb.Transaction,
        added: Iterable[tuple[int, FrameLocation]],
        gone: Iterable[tuple[int, FrameLocation]],
        states: Mapping[tuple[int, int], int],
    ) -> None:
        """Updates the rows by (segment, ledger): adds the sizes of new frames and the counts of state records, and
        subtracts the sizes of frames that are gone."""
        grown: dict[tuple[int, int], int] = defaultdict(int)
        for ledger_id, place in added:
            grown[place.position >> 32, ledger_id] += place.size
        for ledger_id, place in gone:
            grown[place.position >> 32, ledger_id] -= place.size
        for at in grown.keys() | states.keys():
            self._change(txn, KEY.pack(*at), grown.get(at, 0), states.get(at, 0))

    def _change(self, txn: lmdb.Transaction, key: bytes, frame_bytes: int, states: int) -> None:
        row = self.table.get(txn, key)
        held = Usage(*VALUE.unpack(row)) if row is not None else NOTHING
        # A ledger may receive new frames after it was forgotten; its row then starts from zero again.
        now = Usage(max(0, held.frame_bytes + frame_bytes), held.states + states)
        if now == NOTHING:
            self.table.delete(txn, key)
        else:
            self.table.put(txn, key, VALUE.pack(*now))

    def forget(self, txn: lmdb.Transaction, ledger_ids: Collection[int]) -> None:
        """Deletes the rows of these ledgers."""
        rows = txn.cursor(self.table.db).iternext(values=False)
        for key in [bytes(key) for key in rows if KEY.unpack(key)[1] in ledger_ids]:
            self.table.delete(txn, key)

    def clear(self, txn: lmdb.Transaction, segment: int) -> None:
        """Deletes the rows of a deleted segment."""
        cursor = txn.cursor(self.table.db)
        cursor.set_range(KEY.pack(segment, 0))
        rows = takewhile(lambda key: KEY.unpack(key)[0] == segment, cursor.iternext(values=False))
        for key in [bytes(key) for key in rows]:
            self.table.delete(txn, key)
