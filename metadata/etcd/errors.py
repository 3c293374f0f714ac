"""Classifies failed etcd calls: whether they may have taken effect, and whether they may be retried at another
endpoint."""

from __future__ import annotations

from enum import Enum

import grpc

from ..errors import StoreFull, StoreRefused, StoreUnavailable


class Effect(Enum):
    """Effect of a call on etcd. It determines whether the call is retried if its answer is lost."""

    READS = "reads"  # may be sent again
    REPEATABLE = "repeatable"  # changes something, but is idempotent
    ONCE = "once"  # must never be sent twice


class FailureVerdict(Enum):
    """Classification of a gRPC error."""

    NOT_SENT = "not sent"
    NOT_HERE = "not here"  # nothing was done: this kind of member refuses the call, others may accept it
    TOKEN_REFUSED = "token refused"
    REFUSED = "refused"  # etcd refused, and nothing was changed
    FULL = "full"  # over the space quota: etcd answered, and may have applied the change
    UNKNOWN = "unknown"  # ambiguous: the change may have been applied, or may be applied later


class NotSent(Exception):
    """The endpoint was not reached; any call may be retried at another endpoint."""


class PasswordRefused(NotSent):
    """etcd no longer accepts our password, but may accept the next one that is written to the password file."""


class MemberRefused(NotSent):
    """This member refuses calls of this kind, as learners and older versions do."""


class TokenRefused(Exception):
    """etcd does not accept our token, or no longer accepts it; the call had no effect."""


class AnswerLost(Exception):
    """The stream ended before its answer arrived; the call may have taken effect."""


class EtcdRefused(StoreRefused):
    """etcd refused the call; nothing was changed. `code` is the gRPC status code."""

    def __init__(self, endpoint: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"etcd at {endpoint} refused: {details} ({code.name})")
        self.code = code
        self.details = details


WHAT_TO_DO_FULL = 'make room and disarm its alarm, as docs/runbooks.md describes under "etcd is out of space"'


class EtcdFull(StoreFull):
    """etcd answered that it is over its space quota; `settled_writes` determines whether etcd made the change
    nevertheless."""

    def __init__(self, endpoint: str, details: str) -> None:
        super().__init__(
            f"etcd at {endpoint} is out of space, and refuses changes ({details}): {WHAT_TO_DO_FULL}"
        )


# gRPC's messages for a call that never had a connection. If a later version of gRPC changes them,
# such a failure counts as UNKNOWN, which is safe.
_NEVER_SENT = ("failed to connect to all addresses", "DNS resolution failed", "empty address list")

# Errors raised before anything is done. A member without a leader may find one soon, and other members may have one.
_NOT_HERE = ("rpc not supported for learner", "etcdserver: not capable")
_NO_LEADER = "etcdserver: no leader"

_OVER_QUOTA = "database space exceeded"

# Errors raised before anything is changed. Some etcd releases, such as 3.5.1, give the last one the code UNKNOWN.
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old", "auth: revision in header is old")

# etcd returns these codes before it proposes the request, or while it applies the request but before it
# changes anything. RESOURCE_EXHAUSTED is not one of them: the write that crosses the space quota is applied,
# although it fails with "database space exceeded"; and if the answer is too large to receive, the request was
# executed.
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
    """Returns whether a read failed because its answer is larger than MESSAGE_BYTES_MAX."""
    return (
        isinstance(error, EtcdRefused)
        and error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        and "larger than max" in error.details
    )
