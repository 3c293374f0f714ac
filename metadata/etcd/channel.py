"""Calls to an etcd cluster: connections, fail-over between endpoints, authentication, lost answers.

A call that was never sent is retried at another endpoint. A call that may have been sent is retried only if it is
idempotent; otherwise OutcomeUnknown is raised (rule M1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import grpc

from ..errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from ..fork_safety.fork_guard import ForkGuard
from ..fork_safety.forked_grpc import own_grpc
from . import etcd_pb2 as pb
from .authentication import Authentication
from .config import CHANNEL_OPTIONS, EtcdConfig
from .errors import (
    AnswerLost,
    Effect,
    EtcdFull,
    EtcdRefused,
    FailureVerdict,
    MemberRefused,
    NotSent,
    PasswordRefused,
    TokenRefused,
    verdict_on,
)

# TLS credentials of an etcd client, reloaded when their files change.
#
# A connection keeps its credentials. New connections use the renewed files, so no restart is required.

log = logging.getLogger(__name__)


class Credentials:
    """TLS credentials of one store. The constructor raises OSError or ValueError for a file that cannot be used."""

    def __init__(self, config: EtcdConfig) -> None:
        self._config = config
        self._seen = self._look()
        self._newest = config.read_credentials()

    def newest(self) -> grpc.ChannelCredentials | None:
        """Returns the latest credentials; None for plain text. If a reload fails, for example because only half of the
        files have been renewed, the previous credentials are kept."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._newest = self._config.read_credentials()
            except (OSError, ValueError) as error:
                log.warning("certificates for etcd: %s; keeping the previous ones", error)
            else:
                log.info("reloaded the certificates for etcd")
        return self._newest

    def _look(self) -> list[tuple[int, int, int] | None]:
        """Returns a fingerprint of the files."""
        return [_mark(Path(one)) for one in self._config.tls_files]


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


WHAT_TO_DO = (
    'Is it running there, and within reach? What to do for a cluster\'s etcd: docs/runbooks.md, "etcd is unavailable". '
    "For a first try, one machine can do without: sqlite:///PATH/metadata.db"
)

ROUND_PAUSE_SECONDS = 0.1
"""Pause after every endpoint has failed once, before the first one is tried again."""

TOKEN_RENEWALS_MAX = 3
"""Maximum number of token renewals for one call. One renewal may not be enough: a token that another call has renewed
may already have expired, or etcd's users may have changed again."""

Metadata = tuple[tuple[str, str], ...]

# Makes a member that is cut off from its leader refuse calls immediately, instead of not answering.
REQUIRE_LEADER: Metadata = (("hasleader", "true"),)

T = TypeVar("T")
Attempt = Callable[[grpc.aio.Channel, Metadata, float], Awaitable[T]]
"""Makes one attempt at a call on this channel, with this metadata, within this number of seconds."""


class EtcdRequest(Protocol):
    """Part of the interface of protobuf message classes."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 — protobuf's name


def unary(method: str, request: EtcdRequest, parse: Callable[[bytes], T]) -> Attempt[T]:
    """Returns an attempt at one unary call. `method` is the path of the call."""

    async def attempt(channel: grpc.aio.Channel, metadata: Metadata, seconds: float) -> T:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, T] = channel.unary_unary(
            method, response_deserializer=parse
        )
        return await call(request.SerializeToString(), timeout=seconds, metadata=metadata)

    return attempt


class EtcdChannels:
    """One channel per endpoint, created on demand. Uses one endpoint until it fails, then switches to another."""

    def __init__(self, config: EtcdConfig) -> None:
        own_grpc(self)
        self._config = config
        self._credentials = Credentials(config)
        self._channels: dict[str, _Channel] = {}
        self._current = 0
        self._authentication = Authentication(config)
        self._closed = False
        self._home = ForkGuard(lambda why: StoreRefused(f"this etcd store cannot be used here: {why}"))

    async def run(self, attempt: Attempt[T], effect: Effect) -> T:
        """Makes the call at one of the endpoints, within the configured timeout.

        Raises EtcdRefused if etcd refuses the call, StoreUnavailable if the call certainly had no effect,
        OutcomeUnknown if it may have changed something.
        """
        self.check_open()
        try:
            return await _RetriedCall(self, effect, self._config.timeout).run(attempt)
        except grpc.aio.UsageError:  # gRPC's error for a channel that was closed in the meantime
            self.check_open()
            raise
        except asyncio.CancelledError:
            self.check_open_after_cancel()
            raise

    async def close(self) -> None:
        """Closes every channel; calls in progress raise StoreUnavailable."""
        if not self._home.is_here:
            return  # the channels belong to the parent process
        self._closed = True
        channels, self._channels = self._channels, {}
        for one in channels.values():
            await one.channel.close()

    def check_open(self) -> None:
        self._home.check()
        if self._closed:
            raise StoreRefused("this etcd store is closed")

    def check_open_after_cancel(self) -> None:
        """Raises StoreUnavailable if a call was cancelled by `close` rather than by its caller."""
        task = asyncio.current_task()
        if self._closed and task is not None and not task.cancelling():
            raise StoreUnavailable("this etcd store was closed")

    # --- used by _RetriedCall -----------------------------------------------------------------
    @property
    def endpoint_count(self) -> int:
        return len(self._config.endpoints)

    @property
    def endpoint(self) -> str:
        """The endpoint to try next."""
        return self._config.endpoints[self._current]

    def turn_from(self, endpoint: str) -> None:
        """Switches to another endpoint, unless a concurrent call has already done so."""
        if self.endpoint == endpoint:
            self._current = (self._current + 1) % self.endpoint_count

    async def connected(self, endpoint: str, seconds: float) -> grpc.aio.Channel:
        """Connects the endpoint's channel. Raises NotSent if this takes longer than `seconds`.

        Nothing is sent before this returns, so a call can use another endpoint after NotSent. If the connection failed,
        its channel is returned nevertheless: a call on it fails immediately with the reason, for example a TLS
        handshake error.
        """
        channel = self._channel(endpoint)
        settled = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        if channel.get_state(try_to_connect=True) in settled:  # the usual case: no timer
            return channel
        try:
            async with asyncio.timeout(seconds):
                while (state := channel.get_state(try_to_connect=True)) not in settled:
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            raise NotSent(f"no connection within {seconds:.1f} s") from None
        return channel

    async def credentials(
        self, endpoint: str, channel: grpc.aio.Channel, seconds: float
    ) -> tuple[Metadata, str | None]:
        """Returns the metadata for a call, and the token that it contains, or None if no user is configured. Raises the
        same errors as `Authentication.token`."""
        if self._config.user is None:
            return REQUIRE_LEADER, None

        async def ask(password: str) -> str:
            request = pb.AuthenticateRequest(name=self._config.user, password=password)
            attempt = unary("/etcdserverpb.Auth/Authenticate", request, pb.AuthenticateResponse.FromString)
            return (await attempt(channel, REQUIRE_LEADER, seconds)).token

        try:
            async with asyncio.timeout(seconds):
                token = await self._authentication.token(ask, endpoint)
        except TimeoutError:
            raise NotSent(f"not authenticated within {seconds:.1f} s") from None
        # Plain metadata: gRPC refuses call credentials on a connection without TLS.
        return (*REQUIRE_LEADER, ("token", token)), token

    def forget_token(self, token: str | None) -> None:
        """Makes the next call authenticate again, unless another call has already done so."""
        self._authentication.forget(token)

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        """Returns the endpoint's channel. Replaces a channel that is not connected if certificates were renewed after
        it was created. The old channel is freed when the last call on it has ended."""
        self.check_open()
        known = self._channels.get(endpoint)
        if known is None or (not known.is_connected and known.credentials is not self._credentials.newest()):
            known = self._channels[endpoint] = _new_channel(endpoint, self._credentials.newest())
        return known.channel


class _Channel(NamedTuple):
    """A channel, and its credentials."""

    channel: grpc.aio.Channel
    credentials: grpc.ChannelCredentials | None

    @property
    def is_connected(self) -> bool:
        return self.channel.get_state() is grpc.ChannelConnectivity.READY


def _new_channel(endpoint: str, credentials: grpc.ChannelCredentials | None) -> _Channel:
    if credentials is None:
        return _Channel(grpc.aio.insecure_channel(endpoint, options=CHANNEL_OPTIONS), None)
    return _Channel(grpc.aio.secure_channel(endpoint, credentials, options=CHANNEL_OPTIONS), credentials)


class _RetriedCall:
    """Retries one call at all endpoints until its deadline."""

    def __init__(self, channels: EtcdChannels, effect: Effect, seconds: float) -> None:
        self._channels = channels
        self._effect = effect
        self._seconds = seconds
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._failures: dict[str, str] = {}
        self._refused: PasswordRefused | None = None
        self._may_have_happened = False
        self._renewals_left = TOKEN_RENEWALS_MAX

    async def run(self, attempt: Attempt[T]) -> T:
        while True:
            refusals = 0
            for tries_left in range(self._channels.endpoint_count, 0, -1):
                endpoint = self._channels.endpoint
                if self._left() <= 0:
                    raise self._gave_up()
                try:
                    return await self._try(endpoint, attempt, self._left() / tries_left)
                except NotSent as failure:
                    self._failures[endpoint] = str(failure)
                    refusals += isinstance(failure, MemberRefused)
                    if isinstance(failure, PasswordRefused):
                        # more useful than the error of a last attempt with no time left
                        self._refused = failure
                except AnswerLost as lost:
                    self._answer_lost(endpoint, str(lost))
                self._channels.turn_from(endpoint)
            if refusals == self._channels.endpoint_count:  # every member refuses calls of this kind
                raise StoreRefused(f"no etcd member accepts this call: {self._failed()}")
            await asyncio.sleep(min(ROUND_PAUSE_SECONDS, max(self._left(), 0)))

    async def _try(self, endpoint: str, attempt: Attempt[T], seconds: float) -> T:
        """Makes one attempt at the call, within `seconds`. A call that must not be repeated may use all the remaining
        time to wait for its answer."""
        until = asyncio.get_running_loop().time() + seconds
        channel = await self._channels.connected(endpoint, seconds)
        token: str | None = None
        try:
            metadata, token = await self._channels.credentials(endpoint, channel, self._left_until(until))
            answer_by = self._deadline if self._effect is Effect.ONCE else until
            return await attempt(channel, metadata, self._left_until(answer_by))
        except TokenRefused as refused:
            return await self._again_with_new_token(endpoint, attempt, token, str(refused))
        except grpc.aio.AioRpcError as error:
            details = f"{error.details()} ({error.code().name})"
            match verdict_on(error, self._effect):
                case FailureVerdict.NOT_SENT:
                    raise NotSent(details) from error
                case FailureVerdict.NOT_HERE:
                    raise MemberRefused(details) from error
                case FailureVerdict.TOKEN_REFUSED:
                    return await self._again_with_new_token(endpoint, attempt, token, details)
                case FailureVerdict.REFUSED:
                    raise EtcdRefused(endpoint, error.code(), error.details() or "") from error
                case FailureVerdict.FULL:
                    raise EtcdFull(endpoint, details) from error
                case FailureVerdict.UNKNOWN:
                    raise AnswerLost(details) from error

    async def _again_with_new_token(
        self, endpoint: str, attempt: Attempt[T], token: str | None, details: str
    ) -> T:
        if token is None or not self._renewals_left:
            raise EtcdRefused(endpoint, grpc.StatusCode.UNAUTHENTICATED, details)
        self._renewals_left -= 1
        self._channels.forget_token(token)
        return await self._try(endpoint, attempt, self._left())

    def _answer_lost(self, endpoint: str, details: str) -> None:
        """Records a lost answer; returns only if the call may be sent again."""
        self._failures[endpoint] = details
        if self._effect is not Effect.READS:
            self._may_have_happened = True
        if self._effect is Effect.ONCE:
            self._channels.turn_from(endpoint)
            raise self._gave_up()

    def _gave_up(self) -> StoreUnavailable:
        why = self._failed()
        if self._may_have_happened:
            return OutcomeUnknown(f"etcd's answer was lost, so the write may have taken effect: {why}")
        if self._refused is not None:
            return StoreUnavailable(str(self._refused))
        return StoreUnavailable(
            f"etcd did not answer within {self._seconds:g} s: {why or 'no time was left'}",
            what_to_do=WHAT_TO_DO,
        )

    def _failed(self) -> str:
        return "; ".join(f"{endpoint}: {details}" for endpoint, details in self._failures.items())

    def _left(self) -> float:
        return self._left_until(self._deadline)

    def _left_until(self, moment: float) -> float:
        return max(0.0, moment - asyncio.get_running_loop().time())
