"""Errors of the metadata stores.

    MetadataError
    ├── KeyConflict          the key differs from the caller's copy; nothing was changed
    │   ├── KeyExists        create: the key exists already
    │   ├── NoSuchKey        replace or delete: the key does not exist
    │   └── VersionConflict  replace or delete: another client changed the key first
    ├── KeepsChanging        other clients changed the key first, again and again
    ├── ValueTooLarge        the value is over VALUE_BYTES_MAX; nothing was sent
    ├── LeaseLost            the lease ran out; its keys are deleted, or soon will be
    ├── WatchCompacted       the store no longer keeps the history that a watch asked for
    ├── StoreUnavailable     the call did not happen, or it only read
    │   ├── StoreRefused     the store refused (credentials, permission): a retry does not help
    │   └── OutcomeUnknown   ambiguous: the write was sent and its answer lost; it may yet be applied
    │       └── StoreFull    the store has no space left; a read shows whether this write was made
    ├── StoreTooOld          the store's version is not supported
    ├── BadMetadataUri       the URI cannot be parsed
    ├── BackupUnusable       a file is not a backup, is damaged, or does not belong here
    ├── MetadataRestored     the metadata came from a backup, and is not accepted yet
    └── BadRecord            a stored record cannot be decoded

Every class has its details as fields and formats its own message.
"""

from __future__ import annotations

from .picklable_errors import AccessDenied, AlreadyExists, NotFound, PicklableError

CONFLICTS_MAX = 1000
"""Consecutive conflicts of one change after which it fails. That many mean a fault, not contention, because each
conflict means that another client has succeeded."""


class MetadataError(PicklableError):
    """Base class of all errors that a metadata store raises."""


class KeyConflict(MetadataError):
    """The key differs from the caller's copy, and nothing was changed. Read again and decide again; never overwrite."""


class KeyExists(AlreadyExists, KeyConflict):
    """`create` found the key taken. Read it, or choose another key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"metadata key {key!r} exists already")
        self.key = key


class NoSuchKey(NotFound, KeyConflict):
    """`replace` or `delete` found no key. Nothing was changed."""

    def __init__(self, key: str) -> None:
        super().__init__(f"metadata key {key!r} does not exist")
        self.key = key


class VersionConflict(KeyConflict):
    """The key is not at the given version."""

    def __init__(self, key: str, expected: int) -> None:
        super().__init__(f"metadata key {key!r} is no longer at version {expected}")
        self.key = key
        self.expected = expected


class KeepsChanging(MetadataError):
    """Another client was faster each time that this change was tried. Nothing was changed: try again later."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} keeps changing: other clients were faster {CONFLICTS_MAX} times; try again")
        self.what = what


class ValueTooLarge(MetadataError):
    """The value is larger than every store accepts. Nothing was sent."""

    def __init__(self, key: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the value for metadata key {key!r} has {size_bytes} bytes; the limit is {limit_bytes}"
        )
        self.key = key
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class LeaseLost(MetadataError):
    """The lease is no longer alive. Take a new one and create its keys again."""

    def __init__(self, lease_id: int) -> None:
        super().__init__(f"lease {lease_id:x} has been lost")
        self.lease_id = lease_id


class WatchCompacted(MetadataError):
    """The missed events are gone, or the store went back to an older copy that does not contain that revision. List
    the prefix again and watch from that listing's revision."""

    def __init__(self, from_revision: int) -> None:
        super().__init__(f"the history after revision {from_revision} is no longer kept, or not there yet")
        self.from_revision = from_revision


class StoreUnavailable(MetadataError):
    """The store did not answer, and nothing was changed. Try again later.

    `what_to_do`: advice for a first start, if there is any.
    """

    def __init__(self, message: str = "", *, what_to_do: str = "") -> None:
        super().__init__(message)
        self.what_to_do = what_to_do


class StoreRefused(AccessDenied, StoreUnavailable):
    """The store answered and refused, or is closed. Nothing was changed, and a retry does not help."""


class OutcomeUnknown(StoreUnavailable):
    """Ambiguous outcome: a write was sent and its answer was lost; it may have happened, or may happen yet.

    Read back and recognise your own write by the nonce in the record (rule M1). Repeating the same write at the same
    version is idempotent, and always safe.
    """


class StoreFull(OutcomeUnknown):
    """The store has no space left, and refuses changes until an operator frees some.

    The one change that crossed the limit was nevertheless made. Read the key to find out whether it was this one: that
    is already decided.
    """


class StoreTooOld(MetadataError):
    """The store's program lacks needed features, or has bugs that lose data. Upgrade it first."""


class BadMetadataUri(MetadataError):
    """The URI is not `etcd://host:port[,host:port…]/prefix`, `sqlite:///path` or `memory://name`."""

    def __init__(self, uri: str, why: str) -> None:
        super().__init__(f"cannot use metadata URI {uri!r}: {why}")
        self.uri = uri


class BadRecord(MetadataError):
    """A record under this key cannot be decoded by this version. Nothing was changed."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"the record under metadata key {key!r} cannot be used: {why}")
        self.key = key


class BackupUnusable(MetadataError):
    """A file is not a complete backup, or does not belong where it was to be restored."""


class MetadataRestored(MetadataError):
    """The metadata came from a backup, and is not accepted yet. Nothing was changed.

    A ledger whose ensemble is older in the backup could be closed too early. An operator checks the metadata and
    accepts it.
    """

    def __init__(
        self,
        message: str = "the metadata was restored from a backup, and ledgers are neither created, recovered nor "
        "collected until an operator accepts it: bookledger metadata check",
    ) -> None:
        super().__init__(message)
