"""What makes a password slow to guess: scrypt (RFC 7914), with a salt that stands in the ledger's record.

    password, salt ── scrypt ── secret ── the ledger's keys (`ledger_keys`)

A guess takes about a fifth of a second of a core and 32 MiB. So does the first use of a password and salt in a process,
in a thread beside the loop; what came of it is kept, and a process gives all its new ledgers one salt. Ledgers
without a salt come from older programs: their keys follow from the password as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from contextlib import suppress
from functools import cache, partial
from threading import Thread

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from metadata.records.ledger_record import LedgerRecord

SALT_BYTES = 16

COST = 2**15
BLOCKS = 8
PARALLEL = 3
"""The parameters that OWASP's cheat sheet on storing passwords gives for 32 MiB."""

SECRET_BYTES = 32

KEPT_MAX = 4096
"""Secrets that a process keeps; past it all are made anew."""

_kept: dict[bytes, bytes] = {}


@cache
def salt_of_this_process() -> bytes:
    """Of the ledgers with a password that it makes."""
    return secrets.token_bytes(SALT_BYTES)


def stretched(password: bytes, salt: bytes) -> bytes:
    """The secret that ledgers of this password and salt have. Takes its time, once."""
    name = _name(password, salt)
    secret = _kept.get(name)
    if secret is None:
        secret = Scrypt(salt, SECRET_BYTES, COST, BLOCKS, PARALLEL).derive(password)
        if len(_kept) >= KEPT_MAX:
            _kept.clear()
        _kept[name] = secret
    return secret


class Stretching:
    """Does it beside the loop, one at a time for a client: memory is short, and many ledgers share one salt.

    In threads of its own: the application's may all wait for this. They are daemons, and no exit waits for them.
    """

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._under_way: dict[bytes, asyncio.Task[bytes]] = {}

    async def secret_of(self, record: LedgerRecord, password: bytes) -> bytes:
        """What the ledger's keys follow from; b"" for one without a password."""
        salt = record.password_salt
        if not password or not salt:
            return password
        name = _name(password, salt)
        if name in _kept:
            return _kept[name]
        work = self._under_way.get(name)
        if work is None:
            work = self._under_way[name] = asyncio.create_task(self._stretch(password, salt))
            work.add_done_callback(lambda _: self._under_way.pop(name))
        return await asyncio.shield(work)  # others may wait for it, whoever gives up

    async def _stretch(self, password: bytes, salt: bytes) -> bytes:
        async with self._one:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[bytes] = loop.create_future()

            def work() -> None:
                try:
                    told = partial(_set_result, done, stretched(password, salt))
                except Exception as error:
                    told = partial(_set_exception, done, error)
                with suppress(RuntimeError):  # the loop has ended: nobody waits
                    loop.call_soon_threadsafe(told)

            Thread(target=work, name="ledger-password", daemon=True).start()
            return await done


def _name(password: bytes, salt: bytes) -> bytes:
    """What a secret is kept under."""
    return hmac.digest(salt, password, hashlib.sha256)


def _set_result(done: asyncio.Future[bytes], secret: bytes) -> None:
    if not done.done():
        done.set_result(secret)


def _set_exception(done: asyncio.Future[bytes], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
