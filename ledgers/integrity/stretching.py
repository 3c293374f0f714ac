"""Stretches passwords to make guessing slow: scrypt (RFC 7914), with a salt from the ledger's record.

    password, salt ── scrypt ── secret ── the ledger's keys (`ledger_keys`)

Each guess takes about a fifth of a second on one core, and 32 MiB of memory. The first use of a password and salt in a
process costs just as much; it runs in a separate thread. The result is cached, and a process uses one salt for all its
new ledgers.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from functools import cache, partial

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from ..tasks import in_daemon_thread

SALT_BYTES = 16

COST = 2**15
BLOCKS = 8
PARALLEL = 3
"""Parameters that require 32 MiB, from OWASP's Password Storage Cheat Sheet."""

SECRET_BYTES = 32

KEPT_MAX = 4096
"""Maximum number of secrets cached by a process; beyond that, the cache is cleared."""

_kept: dict[bytes, bytes] = {}


@cache
def salt_of_this_process() -> bytes:
    """Returns the salt for all password-protected ledgers that this process creates."""
    return secrets.token_bytes(SALT_BYTES)


def stretched(password: bytes, salt: bytes) -> bytes:
    """Returns the secret for this password and salt, from the cache if available. Slow the first time."""
    name = _name(password, salt)
    secret = _kept.get(name)
    if secret is None:
        secret = Scrypt(salt, SECRET_BYTES, COST, BLOCKS, PARALLEL).derive(password)
        if len(_kept) >= KEPT_MAX:
            _kept.clear()
        _kept[name] = secret
    return secret


class Stretching:
    """Stretches passwords in a thread, one at a time per client, because memory is limited and many ledgers share one
    salt.

    It uses threads of its own, because all of the application's threads may be waiting for the result. These are daemon
    threads, so they do not delay the exit of the process.
    """

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._under_way: dict[bytes, asyncio.Task[bytes]] = {}

    async def secret_of(self, salt: bytes, password: bytes) -> bytes:
        """Returns the secret from which a ledger's keys are derived, using the salt in its record; b"" if there is no
        password."""
        if not password:
            return password
        name = _name(password, salt)
        if name in _kept:
            return _kept[name]
        work = self._under_way.get(name)
        if work is None:
            work = self._under_way[name] = asyncio.create_task(self._stretch(password, salt))
            work.add_done_callback(lambda _: self._under_way.pop(name))
        return await asyncio.shield(work)  # other callers may be waiting for the same result

    async def _stretch(self, password: bytes, salt: bytes) -> bytes:
        async with self._one:
            return await in_daemon_thread("ledger-password", partial(stretched, password, salt))


def _name(password: bytes, salt: bytes) -> bytes:
    """Returns the cache key of a secret."""
    return hmac.digest(salt, password, hashlib.sha256)
