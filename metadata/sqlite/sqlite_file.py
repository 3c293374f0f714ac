"""Metadata operations as SQLite transactions, for the one thread that owns the connection.

    store       one row: format version, and the revision of the latest change
    keys        key -> value, version (the revision of its last change), lease
    events      revision -> kind, key, value: the latest history, for watches; one event per revision
    leases      lease -> its time to live
    lease_ends  lease, name of a clock -> when the lease expires by that clock

A lease is judged by one clock only (`clock`), which all processes of a boot share. A process that finds a lease without
a valid end by that clock, as after a reboot, records one: the lease's whole length from now. So no lease ends while its
holder renews it, and none outlives its holder by more than its own length, whatever the wall clock does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from ..errors import KeyExists, LeaseLost, NoSuchKey, VersionConflict, WatchCompacted
from ..store import EventKind, Lease, Page, Versioned, WatchEvent, prefix_end
from ..version import Version
from .clock import LeaseClock
from .connection import SqliteConnection

FORMAT_VERSION = 1

EVENTS_READ_MAX = 1000
"""Maximum number of events returned by one read of the history."""

SCHEMA = (
    """CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1), format_version INTEGER NOT NULL, revision INTEGER NOT NULL)""",
    """CREATE TABLE keys (
        key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL, lease_id INTEGER)""",
    """CREATE INDEX keys_by_lease ON keys (lease_id) WHERE lease_id IS NOT NULL""",
    """CREATE TABLE events (
        revision INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL)""",
    # AUTOINCREMENT: the id of an expired lease must never be reused for a live one.
    """CREATE TABLE leases (
        lease_id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_seconds REAL NOT NULL)""",
    """CREATE TABLE lease_ends (
        lease_id INTEGER NOT NULL, clock TEXT NOT NULL, expires_at REAL NOT NULL, PRIMARY KEY (lease_id, clock)
        ) WITHOUT ROWID""",
    f"INSERT INTO store VALUES (1, {FORMAT_VERSION}, 0)",
)

OWN_ENDS = "leases LEFT JOIN lease_ends AS own ON own.lease_id = leases.lease_id AND own.clock = :clock"
LACKS_END = "(own.expires_at IS NULL OR own.expires_at > :now + ttl_seconds)"
"""Condition that a lease has no valid end by this clock. A lease expires no later than its time to live from now, so an
end later than that was not written by this clock."""

PAGE_FROM = (
    "SELECT key, value, version FROM keys WHERE key >= ? AND key < CAST(? AS TEXT) ORDER BY key LIMIT ?"
)
PAGE_AFTER = PAGE_FROM.replace("key >= ?", "key > ?")
"""Both queries start at the page's first key in the index. If a condition contained OR, SQLite would read all keys that
precede this key."""

T = TypeVar("T")


class SqliteFile:
    """The metadata operations, each in one transaction. Opens the file on first use."""

    def __init__(
        self, path: str, *, create: bool, events_kept_max: int, clock: LeaseClock | None = None
    ) -> None:
        assert events_kept_max >= 1
        self._events_kept_max = events_kept_max
        self._clock = LeaseClock() if clock is None else clock
        self._connection = SqliteConnection(path, schema=SCHEMA, format_version=FORMAT_VERSION, create=create)

    def open(self) -> None:
        """Opens the file, or creates it. Raises BadMetadataUri if the file can never be used."""
        self._connection.open()

    def close(self) -> None:
        """Closes the file. The next use opens it again."""
        self._connection.close()

    def revision(self) -> int:
        """Returns the revision of the latest change, including the expiry of leases."""
        return self._read(_revision)

    def size_bytes(self) -> int:
        """Returns the size of the file, without its WAL."""
        (pages,), (page_bytes,) = self._read(
            lambda db: (db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone())
        )
        return int(pages) * int(page_bytes)

    def get(self, key: str) -> Versioned | None:
        row = self._read(
            lambda db: db.execute("SELECT key, value, version FROM keys WHERE key = ?", (key,)).fetchone()
        )
        return None if row is None else Versioned(*row)

    def create(self, key: str, value: bytes, lease_id: int | None, unless: str | None = None) -> Version:
        def work(db: sqlite3.Connection) -> Version:
            if unless is not None and _version(db, unless) is not None:
                raise KeyExists(unless)
            if _version(db, key) is not None:
                raise KeyExists(key)
            if lease_id is not None and not _lease_lives(db, lease_id):
                raise LeaseLost(lease_id)
            revision = self._record(db, EventKind.PUT, key, value)
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", (key, value, revision, lease_id))
            return Version(revision, value)

        return self._write(work)

    def replace(self, key: str, value: bytes, version: Version, unless: str | None = None) -> Version:
        def work(db: sqlite3.Connection) -> Version:
            if unless is not None and _version(db, unless) is not None:
                raise KeyExists(unless)
            _check_version(db, key, version)
            revision = self._record(db, EventKind.PUT, key, value)
            db.execute("UPDATE keys SET value = ?, version = ? WHERE key = ?", (value, revision, key))
            return Version(revision, value)

        return self._write(work)

    def delete(self, key: str, version: Version, unless: str | None = None) -> None:
        def work(db: sqlite3.Connection) -> None:
            if unless is not None and _version(db, unless) is not None:
                raise KeyExists(unless)
            _check_version(db, key, version)
            self._drop(db, key)

        self._write(work)

    def list_page(self, prefix: str, after: str | None, limit: int) -> Page:
        def work(db: sqlite3.Connection) -> Page:
            # One extra row shows whether there is another page.
            query, begin = (PAGE_FROM, prefix) if after is None or after < prefix else (PAGE_AFTER, after)
            rows = db.execute(query, (begin, prefix_end(prefix.encode()), limit + 1)).fetchall()
            items = tuple(Versioned(*row) for row in rows[:limit])
            return Page(items, items[-1].key if len(rows) > limit else None, _revision(db))

        return self._read(work)

    def events_after(self, prefix: str, after: int) -> tuple[list[WatchEvent], int]:
        """Returns the events under `prefix` with a revision > `after`, and the revision up to which they are
        complete."""

        def work(db: sqlite3.Connection) -> tuple[list[WatchEvent], int]:
            revision = _revision(db)
            oldest = db.execute("SELECT min(revision) FROM events").fetchone()[0]
            if after > revision or (oldest is not None and after + 1 < oldest):
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
                "INSERT INTO leases (ttl_seconds) VALUES (?) RETURNING lease_id", (ttl_seconds,)
            ).fetchone()
            self._set_missing_ends(db)
            return Lease(row[0], ttl_seconds)

        return self._write(work)

    def keep(self, lease_id: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            if not _lease_lives(db, lease_id):
                raise LeaseLost(lease_id)
            db.execute("DELETE FROM lease_ends WHERE lease_id = ?", (lease_id,))
            self._set_missing_ends(db)

        self._write(work)

    def lease_left(self, key: str) -> float | None:
        row = self._read(
            lambda db: db.execute(
                "SELECT expires_at FROM keys JOIN lease_ends USING (lease_id) WHERE key = ? AND clock = ?",
                (key, self._clock.name),
            ).fetchone()
        )
        return None if row is None else max(0.0, row[0] - self._clock.now())

    def revoke(self, lease_id: int) -> None:
        self._write(lambda db: self._end_lease(db, lease_id))

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on one snapshot that contains no keys of expired leases, and in which an end is recorded for
        every other lease."""

        def unless_expired(db: sqlite3.Connection) -> tuple[T] | None:
            return None if self._is_any_lease_due(db) else (work(db),)

        while (found := self._connection.read(unless_expired)) is None:
            self._write(lambda _: None)  # deletes the keys of expired leases, which wakes watches
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

    def _moment(self) -> dict[str, str | float]:
        return {"clock": self._clock.name, "now": self._clock.now()}

    def _is_any_lease_due(self, db: sqlite3.Connection) -> bool:
        """Returns whether any lease has expired or has no end recorded."""
        query = f"SELECT 1 FROM {OWN_ENDS} WHERE own.expires_at <= :now OR {LACKS_END} LIMIT 1"
        return db.execute(query, self._moment()).fetchone() is not None

    def _set_missing_ends(self, db: sqlite3.Connection) -> None:
        db.execute(
            "INSERT OR REPLACE INTO lease_ends"
            f" SELECT leases.lease_id, :clock, :now + ttl_seconds FROM {OWN_ENDS} WHERE {LACKS_END}",
            self._moment(),
        )

    def _end_expired_leases(self, db: sqlite3.Connection) -> None:
        self._set_missing_ends(db)
        expired = "SELECT lease_id FROM lease_ends WHERE clock = :clock AND expires_at <= :now"
        for (lease_id,) in db.execute(expired, self._moment()).fetchall():
            self._end_lease(db, lease_id)

    def _end_lease(self, db: sqlite3.Connection, lease_id: int) -> None:
        rows = db.execute("SELECT key FROM keys WHERE lease_id = ? ORDER BY key", (lease_id,)).fetchall()
        for (key,) in rows:
            self._drop(db, key)
        db.execute("DELETE FROM leases WHERE lease_id = ?", (lease_id,))
        db.execute("DELETE FROM lease_ends WHERE lease_id = ?", (lease_id,))


def _revision(db: sqlite3.Connection) -> int:
    revision: int = db.execute("SELECT revision FROM store").fetchone()[0]
    return revision


def _version(db: sqlite3.Connection, key: str) -> int | None:
    row = db.execute("SELECT version FROM keys WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def _check_version(db: sqlite3.Connection, key: str, version: Version) -> None:
    row = db.execute("SELECT version, value FROM keys WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise NoSuchKey(key)
    if row[0] != version or not version.matches(row[1]):
        raise VersionConflict(key, version)


def _lease_lives(db: sqlite3.Connection, lease_id: int) -> bool:
    """Returns whether the lease exists; expired leases were deleted when the transaction began."""
    return db.execute("SELECT 1 FROM leases WHERE lease_id = ?", (lease_id,)).fetchone() is not None
