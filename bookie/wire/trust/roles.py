"""Which role may ask what of a daemon: the one table.

A certificate names one role. Without certificates everybody may do everything, so plain text is for one machine.
"""

from __future__ import annotations

from enum import StrEnum

from .. import rpc
from ..data.framing import Kind


class Right(StrEnum):
    """Something that can be asked of a bookie; the last two are asked of the metadata, and of nobody else."""

    APPEND = "append entries"
    READ = "read entries"
    FENCE = "fence a ledger"
    INFO = "ask who a bookie is"
    OBSERVE = "read what is told to operators"
    MAINTAIN = "run maintenance"
    LOOK_INTO = "look into entries through a console"
    DELETE = "delete ledgers of others"
    OVERRIDE = "delete a ledger without its password"


EVERYTHING = frozenset(Right)


class Role(StrEnum):
    """What a process is in a cluster."""

    BOOKIE = "bookie"
    CLIENT = "client"
    READER = "reader"
    JOURNAL = "journal"
    AUDITOR = "auditor"
    CONSOLE = "console"
    ADMIN = "admin"


_WRITERS = frozenset({Right.APPEND, Right.READ, Right.FENCE, Right.INFO})

MAY: dict[Role, frozenset[Right]] = {
    Role.BOOKIE: _WRITERS,  # heals what it has to hold, and recovers what nobody writes any more
    Role.CLIENT: _WRITERS,
    Role.JOURNAL: _WRITERS,
    Role.READER: frozenset({Right.READ, Right.INFO}),
    Role.AUDITOR: frozenset({Right.INFO}),  # it asks the metadata
    Role.CONSOLE: frozenset({Right.INFO, Right.OBSERVE}),
    Role.ADMIN: EVERYTHING,
}

CALLS: dict[Kind, Right] = {
    Kind.APPEND: Right.APPEND,
    Kind.READ: Right.READ,
    Kind.SCAN: Right.READ,
    Kind.LAST_ADD_CONFIRMED: Right.READ,
    Kind.HOLDINGS: Right.READ,
    Kind.INFO: Right.INFO,
}
"""What a frame asks for. A read or a look at the LAC that fences takes Right.FENCE as well."""

FREE = frozenset({Kind.HELLO, Kind.CANCEL, Kind.TAKEN, Kind.PING, Kind.PONG})
"""Of what a client may say, this asks for nothing."""

METHODS: dict[str, Right] = {
    rpc.INFO: Right.INFO,
    rpc.MAINTAIN: Right.MAINTAIN,
    rpc.HEALTH: Right.INFO,
    rpc.HEALTH_WATCH: Right.INFO,
    rpc.REFLECTION: Right.INFO,
}
"""What a gRPC method asks for."""

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
    "/api/v1/journals": Right.OBSERVE,
    "/api/v1/openapi.json": Right.OBSERVE,
    "/": Right.OBSERVE,
    "/bookies": Right.OBSERVE,
    "/ledgers": Right.OBSERVE,
    "/ledgers/{ledger_id}": Right.OBSERVE,
    "/ledgers/{ledger_id}/entries": Right.LOOK_INTO,
    "/healing": Right.OBSERVE,
    "/journals": Right.OBSERVE,
    "/events": Right.OBSERVE,
    "/static/{name}": Right.OBSERVE,
}
"""What a path of HTTP asks for."""
