"""Errors of the metadata stores.

    MetadataError
    ├── KeyConflict          the key differs from the caller's copy; nothing was changed
    │   ├── KeyExists        create: the key already exists
    │   ├── NoSuchKey        replace or delete: the key does not exist
    │   └── VersionConflict  replace or delete: another client changed the key first
    ├── KeepsChanging        other clients kept changing the key first
    ├── ValueTooLarge        the value is larger than VALUE_BYTES_MAX; nothing was sent
    ├── LeaseLost            the lease has expired; its keys are deleted, or soon will be
    ├── WatchCompacted       the store no longer keeps the history that a watch asked for
    ├── StoreUnavailable     the call did not happen, or only read
    │   ├── StoreRefused     the store refused (credentials, permission): a retry does not help
    │   └── OutcomeUnknown   ambiguous: the write was sent but its answer was lost; it may still be applied
    │       └── StoreFull    the store has no space left; a read shows whether this write was made
    ├── StoreTooOld          the store's version is not supported
    ├── BadMetadataUri       the URI cannot be parsed
    ├── BackupUnusable       a file is not a backup, is damaged, or cannot be restored here
    ├── MetadataRestored     the metadata came from a backup, and has not been accepted yet
    └── BadRecord            a stored record cannot be decoded

Every class keeps its details in fields and formats its own message.
"""

from __future__ import annotations

from .picklable_errors import AccessDenied, AlreadyExists, NotFound, PicklableError

CONFLICTS_MAX = 1000
"""Number of consecutive conflicts after which a change fails. That many conflicts indicate a fault rather than
contention, because each one means that another client has succeeded."""


class MetadataError(PicklableError):
    """Base class of all errors that a metadata store raises."""


class KeyConflict(MetadataError):
    """The key differs from the caller's copy, and nothing was changed. Read the key again and decide anew; never simply
    overwrite it."""


class KeyExists(AlreadyExists, KeyConflict):
    """`create` found that the key already exists. Read it, or choose another key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"metadata key {key!r} already exists")
        self.key = key


class NoSuchKey(NotFound, KeyConflict):
    """`replace` or `delete` did not find the key. Nothing was changed."""

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
    """Another client was faster at every attempt to make this change. Nothing was changed: try again later."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} keeps changing: other clients were faster {CONFLICTS_MAX} times; try again")
        self.what = what


class ValueTooLarge(MetadataError):
    """The value is larger than VALUE_BYTES_MAX, the limit of every store. Nothing was sent."""

    def __init__(self, key: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the value for metadata key {key!r} has {size_bytes} bytes; the limit is {limit_bytes}"
        )
        self.key = key
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class LeaseLost(MetadataError):
    """The lease has expired or was revoked. Take a new one and create its keys again."""

    def __init__(self, lease_id: int) -> None:
        super().__init__(f"lease {lease_id:x} has been lost")
        self.lease_id = lease_id


class WatchCompacted(MetadataError):
    """The store no longer keeps the events that the watch has missed, or it has reverted to an older copy that does not
    contain the watch's revision. List the prefix again and watch from that listing's revision."""

    def __init__(self, from_revision: int) -> None:
        super().__init__(
            f"the history after revision {from_revision} is no longer kept, or does not exist yet"
        )
        self.from_revision = from_revision


class StoreUnavailable(MetadataError):
    """The call was not executed, or it was only a read. For the subclass OutcomeUnknown, the call may still take
    effect. Try again later.

    `what_to_do`: advice for a first start, if there is any.
    """

    def __init__(self, message: str = "", *, what_to_do: str = "") -> None:
        super().__init__(message)
        self.what_to_do = what_to_do


class StoreRefused(AccessDenied, StoreUnavailable):
    """The store answered and refused, or is closed. Nothing was changed, and a retry does not help."""


class OutcomeUnknown(StoreUnavailable):
    """Ambiguous outcome: a write was sent but its answer was lost. The write may have been applied, or may be applied
    later.

    Read back and recognise your own write by the nonce in the record (rule M1). Repeating the same write at the same
    version is idempotent, and always safe.
    """


class StoreFull(OutcomeUnknown):
    """The store has no space left, and refuses changes until an operator frees some.

    The one change that crossed the limit was made nevertheless. To find out whether it was this one, read the key: the
    outcome is already final.
    """


class StoreTooOld(MetadataError):
    """The store's software lacks required features, or has bugs that lose data. Upgrade it first."""


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
    """A file is not a complete backup, or cannot be restored into this store."""


class MetadataRestored(MetadataError):
    """The metadata came from a backup, and has not been accepted yet. Nothing was changed.

    A ledger whose ensemble is out of date in the backup could be closed too early, so an operator must first check the
    metadata and accept it.
    """

    def __init__(
        self,
        message: str = "the metadata was restored from a backup, and ledgers are neither created, recovered nor "
        "collected until an operator accepts it: bookledger metadata check",
    ) -> None:
        super().__init__(message)
