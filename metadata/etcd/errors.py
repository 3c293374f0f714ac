"""Classifies failed etcd calls: whether they may have happened, and whether they may be retried at another endpoint."""

from __future__ import annotations

from enum import Enum

import grpc

from ..errors import StoreFull, StoreRefused, StoreUnavailable


class Effect(Enum):
    """Effect of a call on etcd. It decides whether the call is retried if its answer is lost."""

    READS = "reads"  # may be sent again
    REPEATABLE = "repeatable"  # changes something, but is idempotent
    ONCE = "once"  # must never be sent twice


class FailureVerdict(Enum):
    """Classification of a gRPC error."""

    NOT_SENT = "not sent"
    NOT_HERE = (
        "not here"  # refused before anything was done, because of this member's kind: others may accept it
    )
    TOKEN_REFUSED = "token refused"
    REFUSED = "refused"  # etcd refused, and nothing was changed
    FULL = "full"  # over its quota of space: answered, and perhaps applied
    UNKNOWN = "unknown"  # ambiguous: it may have been applied, or may still be


class NotSent(Exception):
    """This endpoint was not reached; any call may be retried at another."""


class PasswordRefused(NotSent):
    """etcd no longer accepts our password, and may accept the next one in its file."""


class MemberRefused(NotSent):
    """This member refuses such calls, as a learner or an older version does."""


class TokenRefused(Exception):
    """etcd does not accept our token, or no longer does; the call did nothing."""


class AnswerLost(Exception):
    """The stream ended before its answer came; the call may have happened."""


class EtcdRefused(StoreRefused):
    """etcd answered and refused; nothing was changed. `code` is gRPC's."""

    def __init__(self, endpoint: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"etcd at {endpoint} refused: {details} ({code.name})")
        self.code = code
        self.details = details


WHAT_TO_DO_FULL = 'make room and disarm its alarm, as docs/runbooks.md describes under "etcd is out of space"'


class EtcdFull(StoreFull):
    """etcd answered that it is over its quota; `settled_writes` finds out whether it made the change."""

    def __init__(self, endpoint: str, details: str) -> None:
        super().__init__(
            f"etcd at {endpoint} is out of space, and refuses changes ({details}): {WHAT_TO_DO_FULL}"
        )


# gRPC's messages for a call that never got a connection. If a later gRPC changes them, such
# a failure counts as UNKNOWN, which is safe.
_NEVER_SENT = ("failed to connect to all addresses", "DNS resolution failed", "empty address list")

# Errors before anything is done. A member without a leader finds one, or another member does.
_NOT_HERE = ("rpc not supported for learner", "etcdserver: not capable")
_NO_LEADER = "etcdserver: no leader"

_OVER_QUOTA = "database space exceeded"

# Errors before anything is changed. Some releases, such as 3.5.1, give the last one the code UNKNOWN.
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old", "auth: revision in header is old")

# etcd checks these before it proposes the request, or while it applies it and before it changes
# anything. RESOURCE_EXHAUSTED is not one of them: the write that crosses the space quota is applied
# and answered "database space exceeded", and an answer too large to receive was an answer.
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
    }
)


def verdict_on(error: grpc.aio.AioRpcError, effect: Effect) -> FailureVerdict:
    """Classifies a gRPC error; UNKNOWN if in doubt."""
    details = error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE and details.startswith((*_NEVER_SENT, _NO_LEADER)):
        return FailureVerdict.NOT_SENT
    if error.code() is grpc.StatusCode.UNIMPLEMENTED or any(words in details for words in _NOT_HERE):
        return FailureVerdict.NOT_HERE
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and effect is Effect.READS:
        return FailureVerdict.REFUSED
    if error.code() in _REFUSALS | {grpc.StatusCode.UNKNOWN} and any(
        words in details for words in _STALE_TOKEN
    ):
        return FailureVerdict.TOKEN_REFUSED
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _OVER_QUOTA in details:
        return FailureVerdict.FULL
    if error.code() not in _REFUSALS:
        return FailureVerdict.UNKNOWN
    return FailureVerdict.REFUSED


def is_too_large(error: StoreUnavailable) -> bool:
    """Returns whether a read failed because its answer is over MESSAGE_BYTES_MAX."""
    return (
        isinstance(error, EtcdRefused)
        and error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        and "larger than max" in error.details
    )
