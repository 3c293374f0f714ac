"""What a failed call to etcd means: did it happen, and is it worth another endpoint."""

from __future__ import annotations

from enum import Enum

import grpc

from ..errors import StoreRefused, StoreUnavailable


class Effect(Enum):
    """What a call does to etcd, which decides what may be done when its answer is lost."""

    READS = "reads"  # may be sent again
    REPEATABLE = "repeatable"  # changes something, but doing it twice is as good as once
    ONCE = "once"  # must never be sent twice


class Verdict(Enum):
    """What a gRPC error says about the call."""

    NOT_SENT = "not sent"
    TOKEN_REFUSED = "token refused"
    REFUSED = "refused"  # etcd answered: no, and nothing was changed
    UNKNOWN = "unknown"  # it may have been done, or be done yet


class NotSent(Exception):
    """This endpoint was not reached; another may be tried, whatever the call does."""


class TokenRefused(Exception):
    """etcd does not know our token (any more); the call did nothing."""


class AnswerLost(Exception):
    """The stream ended before its answer came; the call may have happened."""


class EtcdRefused(StoreRefused):
    """etcd answered and refused; nothing was changed. `code` is gRPC's."""

    def __init__(self, endpoint: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"etcd at {endpoint} refused: {details} ({code.name})")
        self.code = code
        self.details = details


# gRPC's words for a call that never got a connection. Should a later gRPC word it otherwise, such
# a failure counts as UNKNOWN, which is safe.
_NEVER_SENT = ("failed to connect to all addresses", "DNS resolution failed", "empty address list")

_STALE_TOKEN = ("invalid auth token", "revision of auth store is old")

# etcd checks these before it proposes the request, or while it applies it and before it changes
# anything. RESOURCE_EXHAUSTED is not among them: the write that crosses the space quota is applied
# and answered "database space exceeded", and an answer too large to receive was an answer.
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


def verdict_on(error: grpc.aio.AioRpcError, effect: Effect) -> Verdict:
    """Reads a gRPC error; in doubt UNKNOWN."""
    details = error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE and details.startswith(_NEVER_SENT):
        return Verdict.NOT_SENT
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and effect is Effect.READS:
        return Verdict.REFUSED
    if error.code() not in _REFUSALS:
        return Verdict.UNKNOWN
    if any(words in details for words in _STALE_TOKEN):
        return Verdict.TOKEN_REFUSED
    return Verdict.REFUSED


def is_too_large(error: StoreUnavailable) -> bool:
    """Whether a read failed because its answer is over MESSAGE_BYTES_MAX."""
    return (
        isinstance(error, EtcdRefused)
        and error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        and "larger than max" in error.details
    )
