"""What each kind of process needs of the keys in etcd, and no more: the roles that an operator gives to its users.

Keys are those of `metadata/keys.py`. What a role can break with what it has:

    reader, console    nothing
    client             any ledger's record: it can delete ledgers of others, and close them early
    journal            the same, and any journal's promises
    auditor            what is marked for healing: work for nothing, or none where it is needed
    bookie             all of these but journals, and the registrations of other bookies
    admin              everything; formatting a bookie takes it, and ordering it away

Who may write a ledger's record may delete it, as far as etcd can tell. That deleting another's takes an admin is kept
by the clients' library alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from .. import keys
from ..uris import split
from .uri import config_in

_SEEN_BY_ALL = (keys.LAYOUT, keys.LEDGERS, keys.BOOKIES, keys.RESTORED, keys.JOURNALS, keys.COOKIES)
_STATE_OF_THE_CLUSTER = (
    keys.UNDERREPLICATED,
    keys.HEALING,
    keys.MOVES,
    keys.ABSENT,
    keys.ORDERS,
    keys.AUDITOR,
    keys.LIVES,
    keys.MISFITS,
    keys.NEXT_LEDGER_ID,
)
_WRITERS = (keys.LEDGERS, keys.NEXT_LEDGER_ID, keys.UNDERREPLICATED)
_AUDITORS = (keys.UNDERREPLICATED, keys.ABSENT, keys.AUDITOR, keys.MOVES, keys.LEDGERS)


@dataclass(frozen=True, slots=True)
class Access:
    """Keys, or beginnings of keys that end in "/"; what may be written may be read."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


ACCESS: dict[str, Access] = {
    "reader": Access(reads=_SEEN_BY_ALL),
    "client": Access(_WRITERS, _SEEN_BY_ALL),
    "journal": Access((*_WRITERS, keys.JOURNALS), _SEEN_BY_ALL),
    "auditor": Access(_AUDITORS, (*_SEEN_BY_ALL, *_STATE_OF_THE_CLUSTER)),
    "console": Access(reads=(*_SEEN_BY_ALL, *_STATE_OF_THE_CLUSTER)),
    "bookie": Access(
        (
            *_AUDITORS,
            keys.NEXT_LEDGER_ID,
            keys.BOOKIES,
            keys.LIVES,
            keys.HEALING,
            keys.MISFITS,
        ),
        (*_SEEN_BY_ALL, *_STATE_OF_THE_CLUSTER),
    ),
    "admin": Access(("",)),
}


def etcdctl_commands(metadata_uri: str) -> Iterator[str]:
    """The commands of etcd's own client that make the roles `PREFIX-ROLE` for a cluster. Raises ValueError."""
    parts = split(metadata_uri)
    if parts.scheme not in ("etcd", "etcds"):
        raise ValueError(f"roles are for etcd, and {metadata_uri} is none: write etcd://HOST:PORT/PREFIX")
    prefix = config_in(parts).prefix
    for role, access in ACCESS.items():
        name = f"{prefix}-{role}"
        yield shlex.join(["etcdctl", "role", "add", name])
        # Its revision is asked of the prefix itself, which is no key.
        yield _granted(name, "read", f"{prefix}/", is_prefix=False)
        for key in access.writes:
            yield _granted(name, "readwrite", f"{prefix}/{key}", is_prefix=not key or key.endswith("/"))
        for key in access.reads:
            if key not in access.writes:
                yield _granted(name, "read", f"{prefix}/{key}", is_prefix=key.endswith("/"))


def _granted(role: str, what: str, key: str, *, is_prefix: bool) -> str:
    prefix = ["--prefix=true"] if is_prefix else []
    return shlex.join(["etcdctl", "role", "grant-permission", *prefix, role, what, key])
