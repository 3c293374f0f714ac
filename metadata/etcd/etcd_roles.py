"""Least-privilege roles for etcd users: the keys that each kind of process may read and write.

The keys are defined in `metadata/keys.py`. Damage that a compromised role can do:

    reader, console    none
    client             any ledger's and any log's record: it can delete those of other users, and close ledgers early;
                       any election and any cursor: it can become leader, end other leaders' terms, and cause records
                       to be skipped
    journal            the same, and any journal's promises
    auditor            under-replication marks: it can cause needless re-replication, or prevent necessary
                       re-replication
    bookie             all of these except journals and logs; other bookies' registrations; the hold on older metadata
    admin              everything; this role is required to format a bookie, to drain it, or to mark it as given up

In etcd, the right to write a ledger's record includes the right to delete it. Only the client library enforces that
deleting another user's ledger requires an admin.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from .. import keys
from ..uris import split
from .etcd_uri import config_in

_LOGS = (keys.LOGS, keys.LOG_NAMES, keys.LOG_PAGES, keys.LOG_TIMES, keys.LOG_PRODUCERS)
_LEADING = (keys.ELECTIONS, keys.CANDIDATES, keys.CURSORS, keys.SILENCES, keys.LOG_SETS, keys.LOG_SHARES)
_SEEN_BY_ALL = (
    keys.LAYOUT,
    keys.LEDGERS,
    keys.RETIRED_IDS,
    keys.BOOKIES,
    keys.RESTORED,
    keys.MISFITS,
    keys.JOURNALS,
    keys.COOKIES,
    keys.ORDERS,
    keys.ABSENT,
    keys.LIVES,
    keys.ACCEPTED,
    keys.OFFLOADER,
    *_LOGS,
    *_LEADING,
)
_STATE_OF_THE_CLUSTER = (
    keys.UNDERREPLICATED,
    keys.HEALING,
    keys.MOVES,
    keys.DECOMMISSIONED,
    keys.AUDITOR,
    keys.NEXT_LEDGER_ID,
    keys.COLLECTED,
    keys.COLD_REMOVALS,
)
_WRITERS = (
    keys.LEDGERS,
    keys.NEXT_LEDGER_ID,
    keys.UNDERREPLICATED,
    keys.COLD_REMOVALS,
    keys.OFFLOADER,
    *_LOGS,
    *_LEADING,
)
_AUDITORS = (
    keys.UNDERREPLICATED,
    keys.ABSENT,
    keys.AUDITOR,
    keys.MOVES,
    keys.LEDGERS,
    keys.COLD_REMOVALS,
    keys.LOGS,
    keys.LOG_PAGES,
    keys.LOG_TIMES,
    keys.LOG_PRODUCERS,
    keys.SILENCES,
)


@dataclass(frozen=True, slots=True)
class KeyAccess:
    """The keys that a role may write, and those that it may read. An item that ends in "/" is a prefix of keys. A key
    that may be written may also be read."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


ACCESS: dict[str, KeyAccess] = {
    "reader": KeyAccess(reads=_SEEN_BY_ALL),
    "client": KeyAccess(_WRITERS, _SEEN_BY_ALL),
    "journal": KeyAccess((*_WRITERS, keys.JOURNALS, keys.JOURNAL_NODES), _SEEN_BY_ALL),
    "auditor": KeyAccess(_AUDITORS, (*_SEEN_BY_ALL, *_STATE_OF_THE_CLUSTER)),
    "console": KeyAccess(reads=(*_SEEN_BY_ALL, *_STATE_OF_THE_CLUSTER)),
    "bookie": KeyAccess(
        (
            *_AUDITORS,
            keys.NEXT_LEDGER_ID,
            keys.RETIRED_IDS,
            keys.COLLECTED,
            keys.BOOKIES,
            keys.LIVES,
            keys.HEALING,
            keys.MISFITS,
            keys.RESTORED,
        ),
        (*_SEEN_BY_ALL, *_STATE_OF_THE_CLUSTER),
    ),
    "admin": KeyAccess(("",)),
}


def etcdctl_commands(metadata_uri: str) -> Iterator[str]:
    """Yields etcdctl commands that create the roles `PREFIX-ROLE` for a cluster. Raises ValueError."""
    parts = split(metadata_uri)
    if parts.scheme not in ("etcd", "etcds"):
        raise ValueError(
            f"roles are for etcd only, but {metadata_uri} is not an etcd URI: use etcd://HOST:PORT/PREFIX"
        )
    prefix = config_in(parts).prefix
    for role, access in ACCESS.items():
        name = f"{prefix}-{role}"
        yield shlex.join(["etcdctl", "role", "add", name])
        # clients learn the revision by reading the prefix itself, which is not a key
        yield _granted(name, "read", f"{prefix}/", is_prefix=False)
        for key in access.writes:
            yield _granted(name, "readwrite", f"{prefix}/{key}", is_prefix=not key or key.endswith("/"))
        for key in access.reads:
            if key not in access.writes:
                yield _granted(name, "read", f"{prefix}/{key}", is_prefix=key.endswith("/"))


def _granted(role: str, what: str, key: str, *, is_prefix: bool) -> str:
    prefix = ["--prefix=true"] if is_prefix else []
    return shlex.join(["etcdctl", "role", "grant-permission", *prefix, role, what, key])
