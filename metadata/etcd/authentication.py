"""Authentication with etcd: the user's token, and the password used to obtain it, which may change at any time.

The password file is read again for every new token. The file may be changed before etcd has the new password, because
the last password that etcd accepted is also tried. If the password is changed in etcd first, calls wait for the file to
change, just as they wait for an unreachable etcd, so watches and leases resume without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import grpc

from ..secret_file import reload_at_hangup
from .config import EtcdConfig
from .errors import Effect, EtcdRefused, FailureVerdict, MemberRefused, NotSent, PasswordRefused, verdict_on

REFUSED_PAUSE_SECONDS = 1.0
"""Pause after a refusal, before the file is read again and etcd is asked again. It limits the load on etcd, which takes
a tenth of a second to check a password."""

log = logging.getLogger(__name__)

Ask = Callable[[str], Awaitable[str]]
"""Requests a token from etcd with a password. Raises AioRpcError."""


class Authentication:
    """Authentication of one user. The constructor raises OSError or ValueError for a file that cannot be used."""

    def __init__(self, config: EtcdConfig) -> None:
        self._config = config
        self._in_file = config.read_password()
        self._accepted: str | None = None
        self._refusal: _Refusal | None = None
        self._last_logged: str | None = None
        self._token: str | None = None
        self._asking = asyncio.Lock()
        reload_at_hangup(self)

    async def token(self, ask: Ask, endpoint: str) -> str:
        """Returns the token; requests one if there is none.

        If etcd refuses the password, raises EtcdRefused if etcd has never accepted one, otherwise PasswordRefused.
        Raises NotSent if the request for a token fails for any other reason.
        """
        async with self._asking:
            if self._token is None:
                self._token = await self._new_token(ask, endpoint)
            return self._token

    def forget(self, token: str | None) -> None:
        """Drops a token that etcd refused, unless another call has replaced it."""
        if self._token == token:
            self._token = None

    def read_again(self) -> None:
        """Makes the next call read the password file again and request a new token."""
        self._token = self._refusal = None

    async def _new_token(self, ask: Ask, endpoint: str) -> str:
        if self._refusal is not None and time.monotonic() < self._refusal.until:
            raise self._refused(endpoint, self._refusal)
        self._reread()
        for password in dict.fromkeys((self._in_file, self._accepted)):
            if password is not None and (token := await self._asked(ask, password)) is not None:
                self._took(password)
                return token
        assert self._refusal is not None
        raise self._refused(endpoint, self._refusal)

    def _reread(self) -> None:
        """Reads the file again. Keeps the previous password if the file is unusable, for example because it is only
        half written."""
        try:
            found = self._config.read_password()
        except (OSError, ValueError) as error:
            self._log_once(f"cannot reload the password for etcd: {error}; keeping the previous one")
            return
        if found != self._in_file:
            log.info("loaded a changed password for etcd from %s", self._config.password_file)
            self._in_file = found

    async def _asked(self, ask: Ask, password: str) -> str | None:
        """Requests a token. If etcd does not accept this password, returns None and records the refusal."""
        try:
            return await ask(password)
        except grpc.aio.AioRpcError as error:
            verdict = verdict_on(error, Effect.REPEATABLE)
            if verdict is not FailureVerdict.REFUSED:
                # the caller's request was not sent, whether or not the authentication succeeded
                not_sent = MemberRefused if verdict is FailureVerdict.NOT_HERE else NotSent
                raise not_sent(f"cannot authenticate: {error.details()} ({error.code().name})") from error
            details = f"{error.details()}; {self._what_to_do()}"
            self._refusal = _Refusal(time.monotonic() + REFUSED_PAUSE_SECONDS, error.code(), details)
            if self._accepted is not None:
                self._log_once(f"etcd refuses the password: {details}")
            return None

    def _took(self, password: str) -> None:
        if self._accepted is not None and password != self._accepted:
            log.warning("etcd has accepted the new password of user %s", self._config.user)
        if password == self._in_file:
            self._last_logged = None
        self._accepted, self._refusal = password, None

    def _log_once(self, line: str) -> None:
        """Logs the line, unless it repeats the last one."""
        if line != self._last_logged:
            log.warning("%s", line)
            self._last_logged = line

    def _what_to_do(self) -> str:
        return (
            f"write the password that etcd has for user {self._config.user} into {self._config.password_file}, "
            "which is read again after each refusal"
        )

    def _refused(self, endpoint: str, why: _Refusal) -> EtcdRefused | PasswordRefused:
        refused = EtcdRefused(endpoint, why.code, why.details)
        return refused if self._accepted is None else PasswordRefused(str(refused))


class _Refusal(NamedTuple):
    until: float
    code: grpc.StatusCode
    details: str
