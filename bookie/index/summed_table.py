"""Adds checksums to LMDB tables, to detect rows lost through damage: the bookie must not report their entries as absent
(rule R6).

For each table, `meta` contains the number of rows and the exclusive-or of their hashes, updated in the same
transactions as the rows. A full scan shows whether all rows are present and unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple

import lmdb
from crc32c import crc32c

from ..errors import IndexDamaged
from .frame_locations import Row

HASH_BYTES = 8

_CRC = struct.Struct("<I")


class Sum(NamedTuple):
    """Number of rows in a set, and the exclusive-or of their hashes, which does not depend on the order of the rows."""

    rows: int
    hashes: int

    def plus(self, key: Row, value: Row) -> Sum:
        return Sum(self.rows + 1, self.hashes ^ hash_of(key, value))

    def minus(self, key: Row, value: Row) -> Sum:
        return Sum(self.rows - 1, self.hashes ^ hash_of(key, value))


NOTHING = Sum(0, 0)
SUM = struct.Struct("<QQ")


def hash_of(key: Row, value: Row) -> int:
    return int.from_bytes(blake2b(bytes(key) + bytes(value), digest_size=HASH_BYTES).digest(), "little")


def sum_of(rows: Iterable[tuple[Row, Row]]) -> Sum:
    count = hashes = 0
    for key, value in rows:
        count += 1
        hashes ^= hash_of(key, value)
    return Sum(count, hashes)


class Meta:
    """Single values, each with its own checksum."""

    def __init__(self, env: lmdb.Environment) -> None:
        self.db = env.open_db(b"meta")

    def get(self, txn: lmdb.Transaction, key: bytes) -> bytes | None:
        """Returns the value. Raises IndexDamaged if the checksum does not match."""
        found = txn.get(key, db=self.db)
        if found is None:
            return None
        value = bytes(found)
        if len(value) < _CRC.size or _CRC.pack(crc32c(key + value[_CRC.size :])) != value[: _CRC.size]:
            raise IndexDamaged(f"the value of {key.decode()!r} cannot be read")
        return value[_CRC.size :]

    def put(self, txn: lmdb.Transaction, key: bytes, value: bytes) -> None:
        txn.put(key, _CRC.pack(crc32c(key + value)) + value, db=self.db)

    def delete(self, txn: lmdb.Transaction, key: bytes) -> None:
        txn.delete(key, db=self.db)


class SummedTable:
    """An LMDB table with a checksum over all rows. Make changes between `begin` and `end`, in one transaction."""

    def __init__(self, env: lmdb.Environment, name: bytes, meta: Meta) -> None:
        self.db = env.open_db(name)
        self._name = name
        self._key = b"sum of " + name
        self._meta = meta
        self._sum = NOTHING

    def begin(self, txn: lmdb.Transaction) -> None:
        self._sum = self._written(txn)

    def end(self, txn: lmdb.Transaction) -> None:
        self._meta.put(txn, self._key, SUM.pack(*self._sum))

    def get(self, txn: lmdb.Transaction, key: bytes) -> bytes | None:
        found = txn.get(key, db=self.db)
        return None if found is None else bytes(found)

    def put(self, txn: lmdb.Transaction, key: bytes, value: bytes) -> None:
        self.delete(txn, key)
        txn.put(key, value, db=self.db)
        self._sum = self._sum.plus(key, value)

    def delete(self, txn: lmdb.Transaction, key: bytes) -> None:
        old = txn.get(key, db=self.db)
        if old is not None:
            self._sum = self._sum.minus(key, bytes(old))
            txn.delete(key, db=self.db)

    def rows(self, txn: lmdb.Transaction) -> Iterator[tuple[Row, Row]]:
        """Yields every row, in key order. Raises IndexDamaged after the last row if the checksum does not match."""
        count = hashes = 0
        for key, value in txn.cursor(self.db):
            count += 1
            hashes ^= hash_of(key, value)
            yield key, value
        if Sum(count, hashes) != self._written(txn):
            raise IndexDamaged(f"rows of the {self._name.decode()} table are missing or have changed")

    def check(self, txn: lmdb.Transaction) -> None:
        """Raises IndexDamaged if rows are missing or have changed."""
        for _ in self.rows(txn):
            pass

    def _written(self, txn: lmdb.Transaction) -> Sum:
        value = self._meta.get(txn, self._key)
        return NOTHING if value is None else Sum(*SUM.unpack(value))


@contextmanager
def readable() -> Iterator[None]:
    """Turns errors from LMDB, and from rows that cannot be decoded, into IndexDamaged."""
    try:
        yield
    except (lmdb.Error, struct.error, ValueError) as error:
        raise IndexDamaged(f"a read failed: {error}") from error
