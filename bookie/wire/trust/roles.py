"""Authorization: a single table of the requests that each role may make of a daemon.

A certificate specifies one role. Without certificates, every peer has all rights, so plain text must only be used
within one machine.
"""

from __future__ import annotations

from enum import StrEnum

from .. import grpc_methods
from ..data.framing import FrameKind


class Right(StrEnum):
    """A right to request something of a bookie; the last three concern only the metadata."""

    APPEND = "append entries"
    READ = "read entries"
    FENCE = "fence a ledger"
    INFO = "ask who a bookie is"
    OBSERVE = "read operator data"
    MAINTAIN = "run maintenance"
    LOOK_INTO = "look into entries through a console"
    DELETE = "delete ledgers of others"
    OVERRIDE = "delete a ledger without its password"
    ACCEPT_LOSS = "close a ledger whose end cannot be proven"


EVERYTHING = frozenset(Right)


class Role(StrEnum):
    """The role of a process in a cluster."""

    BOOKIE = "bookie"
    CLIENT = "client"
    READER = "reader"
    JOURNAL = "journal"
    AUDITOR = "auditor"
    CONSOLE = "console"
    ADMIN = "admin"


_WRITERS = frozenset({Right.APPEND, Right.READ, Right.FENCE, Right.INFO})

MAY: dict[Role, frozenset[Right]] = {
    Role.BOOKIE: _WRITERS,  # bookies re-replicate, and recover ledgers without a writer
    Role.CLIENT: _WRITERS,
    Role.JOURNAL: _WRITERS,
    Role.READER: frozenset({Right.READ, Right.INFO}),
    Role.AUDITOR: frozenset({Right.INFO}),  # apart from this, auditors only read the metadata
    Role.CONSOLE: frozenset({Right.INFO, Right.OBSERVE}),
    Role.ADMIN: EVERYTHING,
}

CALLS: dict[FrameKind, Right] = {
    FrameKind.APPEND: Right.APPEND,
    FrameKind.READ: Right.READ,
    FrameKind.SCAN: Right.READ,
    FrameKind.LAST_ADD_CONFIRMED: Right.READ,
    FrameKind.HOLDINGS: Right.READ,
    FrameKind.INFO: Right.INFO,
}
"""The right that each kind of frame requires. A read or a LAC request that fences requires Right.FENCE as well."""

FREE = frozenset({FrameKind.HELLO, FrameKind.CANCEL, FrameKind.TAKEN, FrameKind.PING, FrameKind.PONG})
"""Kinds of frames that a client may send without any right."""

METHODS: dict[str, Right] = {
    grpc_methods.INFO: Right.INFO,
    grpc_methods.MAINTAIN: Right.MAINTAIN,
    grpc_methods.NOTES: Right.MAINTAIN,
    grpc_methods.HEALTH: Right.INFO,
    grpc_methods.HEALTH_WATCH: Right.INFO,
    grpc_methods.REFLECTION: Right.INFO,
}
"""The right that each gRPC method requires."""

ROUTES: dict[str, Right] = {
    "/healthz": Right.INFO,
    "/readyz": Right.INFO,
    "/metrics": Right.OBSERVE,
    "/api/v1/cluster": Right.OBSERVE,
    "/api/v1/bookies": Right.OBSERVE,
    "/api/v1/ledgers": Right.OBSERVE,
    "/api/v1/ledgers/{ledger_id}": Right.OBSERVE,
    "/api/v1/fragments": Right.OBSERVE,
    "/api/v1/healing": Right.OBSERVE,
    "/api/v1/logs": Right.OBSERVE,
    "/api/v1/logs/{log}": Right.OBSERVE,
    "/api/v1/elections": Right.OBSERVE,
    "/api/v1/journals": Right.OBSERVE,
    "/api/v1/openapi.json": Right.OBSERVE,
    "/": Right.OBSERVE,
    "/bookies": Right.OBSERVE,
    "/bookies/{bookie_id}": Right.OBSERVE,
    "/ledgers": Right.OBSERVE,
    "/ledgers/{ledger_id}": Right.OBSERVE,
    "/ledgers/{ledger_id}/entries": Right.LOOK_INTO,
    "/healing": Right.OBSERVE,
    "/logs": Right.OBSERVE,
    "/logs/{log}": Right.OBSERVE,
    "/journals": Right.OBSERVE,
    "/events": Right.OBSERVE,
    "/static/{name}": Right.OBSERVE,
}
"""The right that each HTTP path requires."""
