"""Temporary directories that are removed by the next run at the latest, even if this run is killed.

Each is locked while in use, and its lock is released when the process ends. A run therefore first removes the unlocked
directories that killed runs left behind.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .output import Say

PREFIX = "bookledger-"

RANDOM_CHARS = 8
"""Number of characters that `tempfile` appends to a prefix."""

NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors returned by file systems that cannot lock a directory; EBADF is returned by NFS, which locks only files open
for writing."""

MAKE_TRIES_MAX = 10
"""Maximum number of attempts to create a directory; an attempt fails if another run mistakes the new directory for a
leftover before it is locked."""


class NoLocks(Exception):
    """The file system has no locks for directories."""


@contextmanager
def scratch_directory(purpose: str, parent: Path | None, say: Say) -> Iterator[Path]:
    """Creates a directory under `parent` (the system's temporary one by default), removed after the block.

    Reports each removed leftover of the same purpose, and any directory that could not be removed.
    """
    parent = parent or Path(tempfile.gettempdir())
    with directory_beside(parent, f"{PREFIX}{purpose}-", purpose, say) as path:
        yield path


@contextmanager
def directory_beside(parent: Path, prefix: str, purpose: str, say: Say) -> Iterator[Path]:
    """Like `scratch_directory`, with any prefix. Leftovers stay if the file system has no locks, because they may be in
    use."""
    for leftover in sorted(parent.glob(glob.escape(prefix) + "?" * RANDOM_CHARS)):
        _remove_if_unused(leftover, purpose, say)
    path, lock_fd = _make_locked(parent, prefix)
    try:
        yield path
    finally:
        _remove(path, "this run made", say)
        if lock_fd is not None:
            os.close(lock_fd)


def _make_locked(parent: Path, prefix: str) -> tuple[Path, int | None]:
    for _ in range(MAKE_TRIES_MAX):
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock_fd = _lock(path)
        except NoLocks:
            return path, None
        if lock_fd is not None and path.exists():
            return path, lock_fd
        if lock_fd is not None:
            os.close(lock_fd)
    raise OSError(f"another run removes every directory that is created in {parent}")


def _remove_if_unused(path: Path, purpose: str, say: Say) -> None:
    if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.geteuid():
        return
    try:
        lock_fd = _lock(path)
    except NoLocks:
        return
    if lock_fd is None:
        return
    whose = f"a {purpose} that was killed had left"
    if _remove(path, whose, say):
        say(f"removed {path}, which {whose}")
    os.close(lock_fd)


def _remove(path: Path, whose: str, say: Say) -> bool:
    """Removes the directory, and returns whether it is gone. Removal may fail because a child process that is still
    ending creates files in it."""
    try:
        shutil.rmtree(path)
    except OSError as error:
        say(f"could not remove {path}, which {whose}: {error.strerror}")
        return False
    return True


def _lock(path: Path) -> int | None:
    """Locks the directory, and returns a descriptor that holds the lock; None if the directory is in use, or gone.
    Raises NoLocks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if error.errno in NO_LOCKS:
            raise NoLocks from error
        if isinstance(error, BlockingIOError):
            return None
        raise
    return fd
