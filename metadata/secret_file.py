"""Reads passwords and keys from files: bounded in size, and refused if other users of the host can read them.

The holder of a secret may register to be notified when it has to read the file again: at SIGHUP, in a daemon.
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
"""Bounds the read: no password, key or certificate is larger, and a device or a pipe may have no end."""


KEY_FILE_VARIABLE = "BOOKLEDGER_KEY_FILE"
"""Environment variable for the file with the key that encrypts entries, for clients that are given no key."""

AES_256_KEY_BYTES = 32


def read_password(path: str | Path) -> bytes:
    """Reads a password, without one newline at its end.

    Raises ValueError if the file is ours and others can read it, if it is empty or over SECRET_BYTES_MAX, and OSError
    if it cannot be read. As with the keys of ssh, a file of another user is that user's concern.
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
    """Reads the key in the file that BOOKLEDGER_KEY_FILE names; None if it is not set. Raises as `read_key` does."""
    path = os.environ.get(KEY_FILE_VARIABLE)
    return read_key(path) if path else None


def read_key(path: str | Path) -> bytes:
    """Reads an encryption key in hexadecimal digits.

    Raises ValueError for an invalid key, and as `read_password` does.
    """
    text = read_bounded(path, private=True)
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != AES_256_KEY_BYTES:
        digits = 2 * AES_256_KEY_BYTES
        raise ValueError(
            f"{path} holds no key: it is {digits} hexadecimal digits, as `openssl rand -hex 32` makes"
        )
    return key


def read_bounded(path: str | Path, *, private: bool = False) -> bytes:
    """Reads a file of certificates or keys; with `private` raises ValueError if others can read it."""
    with Path(path).open("rb") as file:
        if private:
            _check_private(path, os.fstat(file.fileno()))
        content = file.read(SECRET_BYTES_MAX + 1)
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"{path} is over {SECRET_BYTES_MAX} bytes: it is not a certificate, key or password")
    return content


def _check_private(path: str | Path, status: os.stat_result) -> None:
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        raise ValueError(f"{path} is a device and holds no password: name a file")
    mode = status.st_mode & 0o777
    if status.st_uid == os.geteuid() and mode & 0o077:
        raise ValueError(
            f"{path} holds a password and has mode {mode:04o}, so others can read it: chmod 600 {path}"
        )


class Rereads(Protocol):
    """Part of the interface of a holder of a secret."""

    def read_again(self) -> None:
        """Makes the next use read the file again."""


_holders: WeakSet[Rereads] = WeakSet()


def reload_at_hangup(holder: Rereads) -> None:
    """Registers the holder: each SIGHUP calls its `read_again`, until the holder is garbage-collected."""
    _holders.add(holder)


def read_all_again() -> None:
    """Notifies all holders of this process."""
    log.warning("SIGHUP: passwords and certificates are read again at their next use")
    for one in list(_holders):
        one.read_again()
