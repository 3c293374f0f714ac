"""Connection to the SQLite file of an embedded metadata store: opens the file, and runs transactions.

Several processes of one machine share the file. Each write transaction is `BEGIN IMMEDIATE` under an `flock` on the
side file `<path>.lock`: SQLite's own busy wait sleeps and retries, so a process can starve, whereas `flock` queues. A
file of another program is never changed.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar
from urllib.parse import quote

from ..errors import BadMetadataUri, OutcomeUnknown, StoreUnavailable
from .file_lock import FileLock
from .sqlite_uri import uri_of

# Fork safety of SQLite: no fork during a transaction, and the child closes inherited connections.
#
# SQLite holds locks on its file for the whole process, and counts them in memory. A forked child inherits the count but
# not the locks: its own connections would run without locks, and the parent, on closing, would delete a log that the
# child is still using. So no fork happens while a thread is inside SQLite, and the child first closes the connections
# that it inherited. SQLite then has no file open in the child, and takes locks for the files that the child opens.


class Inherited(Protocol):
    """Owner of a connection that a forked child may inherit."""

    def close_inherited(self) -> None:
        """Closes the connection in a forked child."""


class ForkGate:
    """A lock that threads hold in shared mode while they are inside SQLite, and that a fork takes exclusively."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._holders: weakref.WeakSet[Inherited] = weakref.WeakSet()

    def add(self, holder: Inherited) -> None:
        with self._changed:
            self._holders.add(holder)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Holds the lock in shared mode while a thread calls SQLite, from the beginning of a transaction to its end."""
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def before_fork(self) -> None:
        self._changed.acquire()
        self._changed.wait_for(lambda: self._inside == 0)

    def after_fork_in_parent(self) -> None:
        self._changed.release()

    def after_fork_in_child(self) -> None:
        holders = list(self._holders)
        self._reset()  # the lock was held by threads that do not exist in the child, so they would never release it
        for holder in holders:
            holder.close_inherited()


gate = ForkGate()
os.register_at_fork(
    before=gate.before_fork,
    after_in_parent=gate.after_fork_in_parent,
    after_in_child=gate.after_fork_in_child,
)


APPLICATION_ID = 0x624B4C31
"""The `application_id` in the SQLite header of our files: "bKL1"."""

WHO_MAKES_IT = "`bookledger standalone` and `bookledger bookie format` make one"

BUSY_SECONDS_MAX = 5.0
"""Maximum time for which SQLite itself waits for a program that does not take our flock (the `sqlite3` shell)."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class SqliteConnection:
    """One connection, used by one thread. Opens the file on first use, and again after an error.

    `schema`: the statements that fill a new file, including a table `store` with a column `format_version`; a file of
    any other version is rejected. With `create`, a missing or empty file is filled, but only the first time it is
    opened: a file that disappears later is not replaced by an empty one.
    """

    def __init__(
        self,
        path: str,
        *,
        schema: tuple[str, ...],
        format_version: int,
        create: bool,
    ) -> None:
        self._path = os.path.realpath(path)
        self._create = create
        self._schema = schema
        self._format_version = format_version
        self._connection: sqlite3.Connection | None = None
        self._lock: FileLock | None = None
        self._opened: tuple[int, int] | None = None
        """Device and inode of the open file. The path may later name another file."""
        gate.add(self)

    def open(self) -> None:
        """Opens the file, or creates it. Raises BadMetadataUri if the file can never be used. Raises StoreUnavailable
        if a file that was opened before is no longer one of ours: it may be in the middle of being restored, and
        complete in a moment."""
        try:
            self._open()
        except BadMetadataUri as error:
            if self._opened is None:
                raise
            raise StoreUnavailable(str(error)) from error

    def _open(self) -> None:
        if self._connection is None:
            if not self._create:
                self._check_there()
            with self._flocked():
                if self._create:
                    self._make_file()
                with gate.inside():
                    self._connection = self._connect()
                self._opened = _identity_of(self._path)
            self._create = False

    def _check_there(self) -> None:
        """Raises BadMetadataUri for a missing file, before a lock file is created next to a mistyped path."""
        if not os.path.exists(self._path):
            raise self._bad(f"there is no such file; {WHO_MAKES_IT}")

    def close(self) -> None:
        """Closes the file. The next use opens it again."""
        with gate.inside():
            self.close_inherited()

    def close_inherited(self) -> None:
        """Closes the connection and the lock that a forked child has inherited."""
        self._disconnect()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on one snapshot of the file."""
        self.open()
        self._check_in_place()
        with self._in_sqlite():
            db = self._connected()
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                db.rollback()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` as the only writer among all processes. The changes that `work` makes are durable when this
        method returns, and are undone if `work` raises."""
        self.open()
        self._check_in_place()
        with self._flocked(), self._in_sqlite():
            db = self._connected()
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
            except BaseException:
                db.rollback()
                raise
            self._commit(db)
            return result

    def _check_in_place(self) -> None:
        """Reopens the path if it now names another file, because writes to a file that no process can open again would
        be lost. Raises StoreUnavailable while there is no file.

        When SQLite closes a file that is no longer at its path, it does not remove any files by name.
        """
        found = _identity_of(self._path)
        if found is None:
            raise StoreUnavailable(f"metadata file {self._path} is missing: put it back")
        if found != self._opened:
            log.warning(
                "metadata file %s was replaced by another file: using the new file from now on", self._path
            )
            with gate.inside():
                self._disconnect()
            self.open()

    def _commit(self, db: sqlite3.Connection) -> None:
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            # The commit record may already be in the WAL. A new connection determines the outcome from the file.
            self._disconnect()
            raise OutcomeUnknown(f"metadata file {self._path}: the commit failed: {error}") from error

    def _flocked(self) -> AbstractContextManager[None]:
        # Closing any descriptor of the database file would drop SQLite's own POSIX locks on it, so
        # the flock is on a separate file next to it. The lock is released when its process dies.
        if self._lock is None:
            self._lock = FileLock(self._open_lock_file(), self._path + ".lock")
        return self._lock.held()

    @contextmanager
    def _in_sqlite(self) -> Iterator[None]:
        with gate.inside():
            try:
                yield
            except sqlite3.Error as error:
                # Closing the connection rolls back the transaction, whatever its state.
                self._disconnect()
                raise StoreUnavailable(f"metadata file {self._path}: {error}") from error

    def _connected(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open_lock_file(self) -> int:
        try:
            return os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            why = f"the directory {os.path.dirname(self._path)} does not exist; create it first"
            raise self._bad(why) from error
        except OSError as error:
            raise self._bad(f"cannot write {self._path}.lock: {error.strerror}") from error

    def _make_file(self) -> None:
        """Makes a missing file, readable only by its owner, and makes its directory entry durable."""
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:  # the usual case: the file exists from an earlier start
            return
        except OSError as error:
            raise self._bad(f"cannot create it: {error.strerror}") from error
        directory = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        except OSError as error:
            raise StoreUnavailable(f"metadata file {self._path}: {error.strerror}") from error
        finally:
            os.close(directory)

    def _connect(self) -> sqlite3.Connection:
        try:
            # Mode rw: a file that has disappeared since the check is not created again.
            file = f"file:{quote(os.fsencode(self._path))}?mode=rw"
            connection = sqlite3.connect(
                file,
                uri=True,
                timeout=BUSY_SECONDS_MAX,
                isolation_level=None,
                check_same_thread=False,  # a forked child closes this connection in another thread
            )
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise self._refusal(error) from error
            raise
        return connection

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Checks that the file is ours before changing anything in it; fills it if it is new."""
        is_new = self._check_is_new_or_ours(db)
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise self._bad("its file system does not support SQLite's WAL mode; use a local disk")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")  # also detects a file that cannot be written
        if is_new:
            for statement in self._schema:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")

    def _check_is_new_or_ours(self, db: sqlite3.Connection) -> bool:
        """Returns whether the file is still empty. Raises BadMetadataUri if it belongs to another program."""
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            if not self._create:
                raise self._bad(f"the file is empty; {WHO_MAKES_IT}")
            return True
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise self._bad(
                "it is the SQLite database of another program, or of a build before the first release; choose "
                "another file"
            )
        found = db.execute("SELECT format_version FROM store").fetchone()[0]
        if found != self._format_version:
            raise self._bad(
                f"it has format version {found}, but this program reads version {self._format_version}"
            )
        return False

    def _refusal(self, error: sqlite3.Error) -> BadMetadataUri | StoreUnavailable:
        advice = {
            sqlite3.SQLITE_NOTADB: "it is not a metadata database; choose another file",
            sqlite3.SQLITE_CORRUPT: "restore it from a backup",
            sqlite3.SQLITE_CANTOPEN: "choose a file in a directory that this user may write to",
            sqlite3.SQLITE_READONLY: "give this user permission to write to it",
        }
        # The low byte is the primary code; the other bytes give details. Some errors have no code.
        primary_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if primary_code in advice:
            return self._bad(f"{error}; {advice[primary_code]}")
        return StoreUnavailable(f"metadata file {self._path}: {error}")

    def _bad(self, why: str) -> BadMetadataUri:
        return BadMetadataUri(uri_of(self._path), why)


def _identity_of(path: str) -> tuple[int, int] | None:
    """Returns the device and inode of the file at this path; None if there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailable(f"metadata file {path}: {error.strerror}") from error
    return found.st_dev, found.st_ino
