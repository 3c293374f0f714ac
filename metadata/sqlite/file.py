"""Metadata operations as SQLite transactions, for the one thread that owns the connection.

    store   one row: format version, and the revision of the latest change
    keys    key -> value, version (the revision of its last change), lease
    events  revision -> kind, key, value: the latest history, for watches; one event per revision
    leases  lease -> its time to live, and the wall-clock time of its expiry

The leases' clock is the machine's wall clock, which all processes that share the file see.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import KeyExists, LeaseLost, NoSuchKey, VersionConflict, WatchCompacted
from ..store import EventKind, Lease, Page, Versioned, WatchEvent, prefix_end
from .connection import SqliteConnection

FORMAT_VERSION = 1

EVENTS_READ_MAX = 1000
"""Events returned by one read of the history, at most."""

SCHEMA = (
    """CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1), format_version INTEGER NOT NULL, revision INTEGER NOT NULL)""",
    """CREATE TABLE keys (
        key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL, lease_id INTEGER)""",
    """CREATE INDEX keys_by_lease ON keys (lease_id) WHERE lease_id IS NOT NULL""",
    """CREATE TABLE events (
        revision INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL)""",
    # AUTOINCREMENT: the id of a dead lease must never name a living one.
    """CREATE TABLE leases (
        lease_id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_seconds REAL NOT NULL, expires_at REAL NOT NULL)""",
    f"INSERT INTO store VALUES (1, {FORMAT_VERSION}, 0)",
)

PAGE_FROM = (
    "SELECT key, value, version FROM keys WHERE key >= ? AND key < CAST(? AS TEXT) ORDER BY key LIMIT ?"
)
PAGE_AFTER = PAGE_FROM.replace("key >= ?", "key > ?")
"""Each begins in the index where the page does: a condition with OR would have SQLite read all keys before it."""

T = TypeVar("T")


class SqliteFile:
    """The metadata operations, each one transaction. Opens the file at the first use."""

    def __init__(self, path: str, *, create: bool, events_kept_max: int) -> None:
        assert events_kept_max >= 1
        self._events_kept_max = events_kept_max
        self._connection = SqliteConnection(path, schema=SCHEMA, format_version=FORMAT_VERSION, create=create)

    def open(self) -> None:
        """Opens the file, or creates it. Raises BadMetadataUri where that can never work."""
        self._connection.open()

    def close(self) -> None:
        """Closes the file. The next use opens it again."""
        self._connection.close()

    def revision(self) -> int:
        """The revision of the latest change, expired leases included."""
        return self._read(_revision)

    def size_bytes(self) -> int:
        """Size of the file, without its WAL."""
        (pages,), (page_bytes,) = self._read(
            lambda db: (db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone())
        )
        return int(pages) * int(page_bytes)

    def get(self, key: str) -> Versioned | None:
        row = self._read(
            lambda db: db.execute("SELECT key, value, version FROM keys WHERE key = ?", (key,)).fetchone()
        )
        return None if row is None else Versioned(*row)

    def create(self, key: str, value: bytes, lease_id: int | None, unless: str | None = None) -> int:
        def work(db: sqlite3.Connection) -> int:
            if unless is not None and _version(db, unless) is not None:
                raise KeyExists(unless)
            if _version(db, key) is not None:
                raise KeyExists(key)
            if lease_id is not None and not _lease_lives(db, lease_id):
                raise LeaseLost(lease_id)
            revision = self._record(db, EventKind.PUT, key, value)
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", (key, value, revision, lease_id))
            return revision

        return self._write(work)

    def replace(self, key: str, value: bytes, version: int) -> int:
        def work(db: sqlite3.Connection) -> int:
            _check_version(db, key, version)
            revision = self._record(db, EventKind.PUT, key, value)
            db.execute("UPDATE keys SET value = ?, version = ? WHERE key = ?", (value, revision, key))
            return revision

        return self._write(work)

    def delete(self, key: str, version: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            _check_version(db, key, version)
            self._drop(db, key)

        self._write(work)

    def list_page(self, prefix: str, after: str | None, limit: int) -> Page:
        def work(db: sqlite3.Connection) -> Page:
            # One row more than asked for tells whether there is another page.
            query, begin = (PAGE_FROM, prefix) if after is None or after < prefix else (PAGE_AFTER, after)
            rows = db.execute(query, (begin, prefix_end(prefix.encode()), limit + 1)).fetchall()
            items = tuple(Versioned(*row) for row in rows[:limit])
            return Page(items, items[-1].key if len(rows) > limit else None, _revision(db))

        return self._read(work)

    def events_after(self, prefix: str, after: int) -> tuple[list[WatchEvent], int]:
        """Events under `prefix` with a revision > `after`, and the revision they reach to."""

        def work(db: sqlite3.Connection) -> tuple[list[WatchEvent], int]:
            revision = _revision(db)
            oldest = db.execute("SELECT min(revision) FROM events").fetchone()[0]
            if oldest is not None and after + 1 < oldest:
                raise WatchCompacted(after)
            rows = db.execute(
                "SELECT kind, key, value, revision FROM events WHERE revision > ? AND key >= ?"
                " AND key < CAST(? AS TEXT) ORDER BY revision LIMIT ?",
                (after, prefix, prefix_end(prefix.encode()), EVENTS_READ_MAX),
            ).fetchall()
            events = [WatchEvent(EventKind(kind), key, value, at) for kind, key, value, at in rows]
            reached = events[-1].revision if len(events) == EVENTS_READ_MAX else max(after, revision)
            return events, reached

        return self._read(work)

    def grant(self, ttl_seconds: float) -> Lease:
        def work(db: sqlite3.Connection) -> Lease:
            row = db.execute(
                "INSERT INTO leases (ttl_seconds, expires_at) VALUES (?, ?) RETURNING lease_id",
                (ttl_seconds, time.time() + ttl_seconds),
            ).fetchone()
            return Lease(row[0], ttl_seconds)

        return self._write(work)

    def keep(self, lease_id: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            kept = db.execute(
                "UPDATE leases SET expires_at = ? + ttl_seconds WHERE lease_id = ?", (time.time(), lease_id)
            )
            if kept.rowcount == 0:
                raise LeaseLost(lease_id)

        self._write(work)

    def lease_left(self, key: str) -> float | None:
        row = self._read(
            lambda db: db.execute(
                "SELECT expires_at FROM leases JOIN keys USING (lease_id) WHERE key = ?", (key,)
            ).fetchone()
        )
        return None if row is None else max(0.0, row[0] - time.time())

    def revoke(self, lease_id: int) -> None:
        self._write(lambda db: self._end_lease(db, lease_id))

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on one snapshot that holds no key of an expired lease."""

        def unless_expired(db: sqlite3.Connection) -> tuple[T] | None:
            return None if _any_lease_expired(db) else (work(db),)

        while (found := self._connection.read(unless_expired)) is None:
            self._write(lambda _: None)  # deletes those keys, which wakes watches
        return found[0]

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def after_expiry(db: sqlite3.Connection) -> T:
            self._end_expired_leases(db)
            return work(db)

        return self._connection.write(after_expiry)

    def _record(self, db: sqlite3.Connection, kind: EventKind, key: str, value: bytes) -> int:
        revision: int = db.execute("UPDATE store SET revision = revision + 1 RETURNING revision").fetchone()[
            0
        ]
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (revision, kind.value, key, value))
        db.execute("DELETE FROM events WHERE revision <= ?", (revision - self._events_kept_max,))
        return revision

    def _drop(self, db: sqlite3.Connection, key: str) -> None:
        db.execute("DELETE FROM keys WHERE key = ?", (key,))
        self._record(db, EventKind.DELETE, key, b"")

    def _end_expired_leases(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT lease_id FROM leases WHERE expires_at <= ?", (time.time(),)).fetchall()
        for (lease_id,) in rows:
            self._end_lease(db, lease_id)

    def _end_lease(self, db: sqlite3.Connection, lease_id: int) -> None:
        rows = db.execute("SELECT key FROM keys WHERE lease_id = ? ORDER BY key", (lease_id,)).fetchall()
        for (key,) in rows:
            self._drop(db, key)
        db.execute("DELETE FROM leases WHERE lease_id = ?", (lease_id,))


def _revision(db: sqlite3.Connection) -> int:
    revision: int = db.execute("SELECT revision FROM store").fetchone()[0]
    return revision


def _version(db: sqlite3.Connection, key: str) -> int | None:
    row = db.execute("SELECT version FROM keys WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def _check_version(db: sqlite3.Connection, key: str, version: int) -> None:
    found = _version(db, key)
    if found is None:
        raise NoSuchKey(key)
    if found != version:
        raise VersionConflict(key, version)


def _lease_lives(db: sqlite3.Connection, lease_id: int) -> bool:
    """Whether the lease exists; expired ones were deleted when the transaction began."""
    return db.execute("SELECT 1 FROM leases WHERE lease_id = ?", (lease_id,)).fetchone() is not None


def _any_lease_expired(db: sqlite3.Connection) -> bool:
    expired = db.execute("SELECT 1 FROM leases WHERE expires_at <= ? LIMIT 1", (time.time(),))
    return expired.fetchone() is not None
