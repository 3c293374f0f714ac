"""Reads passwords and keys from files. A file is refused if it is too large, or if other users of the host can read it.

An object that holds a secret can register to be notified when it has to read the file again: on SIGHUP, in a daemon.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger(__name__)

SECRET_BYTES_MAX = 1024 * 1024
"""Maximum number of bytes to read from a file: no password, key or certificate is larger, and a device or a pipe may
have no end."""


KEY_FILE_VARIABLE = "BOOKLEDGER_KEY_FILE"
"""Environment variable for the file with the key that encrypts entries. Used by clients that are given no key."""

AES_256_KEY_BYTES = 32


def read_password(path: str | Path) -> bytes:
    """Reads a password, and strips one newline at its end.

    Raises ValueError if the file belongs to the current user and others can read it, if it is empty or larger than
    SECRET_BYTES_MAX, and OSError if it cannot be read. As with ssh keys, the permissions of another user's file are
    that user's concern.
    """
    password = read_bounded(path, private=True)
    for newline in (b"\r\n", b"\n"):
        if password.endswith(newline):
            password = password.removesuffix(newline)
            break
    if not password:
        raise ValueError(f"{path} holds no password")
    return password


def key_of_environment() -> bytes | None:
    """Reads the key from the file named by BOOKLEDGER_KEY_FILE; returns None if the variable is not set. Raises the
    same errors as `read_key`."""
    path = os.environ.get(KEY_FILE_VARIABLE)
    return read_key(path) if path else None


def read_key(path: str | Path) -> bytes:
    """Reads an encryption key in hexadecimal digits.

    Raises ValueError for an invalid key, and the errors that `read_password` raises.
    """
    text = read_bounded(path, private=True)
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != AES_256_KEY_BYTES:
        digits = 2 * AES_256_KEY_BYTES
        raise ValueError(
            f"{path} contains no key: a key is {digits} hexadecimal digits, as printed by `openssl rand -hex 32`"
        )
    return key


def read_bounded(path: str | Path, *, private: bool = False) -> bytes:
    """Reads a file of certificates or keys. With `private`, raises ValueError if others can read it."""
    with Path(path).open("rb") as file:
        if private:
            _check_private(path, os.fstat(file.fileno()))
        content = file.read(SECRET_BYTES_MAX + 1)
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"{path} is over {SECRET_BYTES_MAX} bytes: it is not a certificate, key or password")
    return content


def _check_private(path: str | Path, status: os.stat_result) -> None:
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        raise ValueError(f"{path} is a device and contains no password: specify a file")
    mode = status.st_mode & 0o777
    if status.st_uid == os.geteuid() and mode & 0o077:
        raise ValueError(
            f"{path} holds a password and has mode {mode:04o}, so others can read it: chmod 600 {path}"
        )


class Rereads(Protocol):
    """Interface of an object that holds a secret and can be told to read its file again."""

    def read_again(self) -> None:
        """Causes the file to be read again at the next use."""


_holders: WeakSet[Rereads] = WeakSet()


def reload_at_hangup(holder: Rereads) -> None:
    """Registers the holder: each SIGHUP calls its `read_again`, until the holder is garbage-collected."""
    _holders.add(holder)


def read_all_again() -> None:
    """Notifies all registered holders in this process."""
    log.warning("SIGHUP: passwords and certificates will be read again when they are next used")
    for one in list(_holders):
        one.read_again()
