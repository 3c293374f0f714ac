"""Hold on restored metadata: until an operator accepts it, nothing is created, recovered, re-replicated or collected.

A backup is older than the bookies' data. It lacks the ledgers created after it. For other ledgers it names bookies that
have since been replaced, so the copies on their replacements would be collected. Each bookie therefore reports which of
its entries do not match the restored metadata; the reports are stored here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .. import keys, settled_writes
from ..errors import BadRecord, MetadataRestored, StoreRefused
from ..records import directory_generations
from ..records import records_pb2 as pb
from ..records.ledger_record import BookieRef
from ..records.record_decoding import parse_record, skip
from ..store import MetadataStore, Versioned, list_all
from ..version import Version, encode_record

FORMAT_VERSION = 1

BEING_RESTORED = (
    "a backup was being restored here: finish that first, with the same file (`bookledger metadata restore`)"
)

BEING_REBUILT = "the metadata was being rebuilt here: start the rebuild again (`bookledger metadata rebuild`)"

EMPTIED = (
    "the metadata of the cluster that was here is gone, as its bookies have noticed: stop all bookies and clients, put "
    "a backup in its place (`bookledger metadata restore`), and start the bookies again; without a backup, let the "
    "bookies run, and rebuild it from their data (`bookledger metadata rebuild`)"
)

LEDGERS_NAMED_MAX = 100
"""Maximum number of ledgers of each kind that a bookie lists by id."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """How a bookie noticed that the metadata had been rolled back. `compared`: a description of the value that it
    compared; `found`: the number that it found; `expected`: the minimum that it expected. Both numbers are 0 if the
    description needs none."""

    bookie_id: str
    compared: str
    found: int
    expected: int

    def __str__(self) -> str:
        if not self.expected:
            return f"bookie {self.bookie_id} found {self.compared}"
        at_least = f"{self.expected} or more"
        return f"bookie {self.bookie_id} found {self.compared} at {self.found}, but expected {at_least}"


@dataclass(frozen=True, slots=True)
class Restored:
    """A hold: when the backup was made (0 if bookies noticed a rollback), and when it was restored. `nonce` identifies
    the restore; `version` is the version of the hold's key. `noticed`: which bookie noticed the rollback, and how; None
    after a restore, or if this was not recorded. `is_rebuilt`: the metadata was rebuilt from the bookies' data instead
    of restored from a backup."""

    backup_ms: int
    restored_ms: int
    nonce: bytes
    version: Version
    noticed: Noticed | None = None
    is_rebuilt: bool = False

    @property
    def why_no_cluster(self) -> str:
        """The reason why there is a hold but no cluster layout, and how to proceed."""
        if self.is_rebuilt:
            return BEING_REBUILT
        return BEING_RESTORED if self.backup_ms else EMPTIED


@dataclass(frozen=True, slots=True)
class HoldKind:
    """Number of ledgers with one kind of mismatch, and the ids of the first ones."""

    ledgers: int = 0
    first: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: Sequence[int]) -> HoldKind:
        return cls(len(found), tuple(found[:LEDGERS_NAMED_MAX]))


@dataclass(frozen=True, slots=True)
class Misfits:
    """Mismatches between one bookie's entries and the restored metadata.

    `unknown`: ledgers newer than the backup; they are kept, but cannot be read. `open_elsewhere`: ledgers that are not
    closed, and of which the bookie holds entries that the metadata places on other bookies; a recovery could miss these
    entries. `closed_elsewhere`: the same for closed ledgers; another bookie should hold the entries, or did so before
    it was replaced. `lacking`: ledgers that the metadata places on this bookie although it lacks some of their entries.
    If such a ledger is closed, its record lists these entries as lacking, too. If it is open, the bookie has no entries
    of it at all: the ledger may be empty, or it was deleted after the backup and would be resurrected as an empty
    ledger. `cut_short`: ledgers that were closed before entries that the bookie can prove to be confirmed; it keeps all
    its entries of these ledgers.
    """

    bookie: BookieRef
    restored_nonce: bytes
    unknown: HoldKind = HoldKind()
    open_elsewhere: HoldKind = HoldKind()
    closed_elsewhere: HoldKind = HoldKind()
    lacking: HoldKind = HoldKind()
    cut_short: HoldKind = HoldKind()

    @property
    def fits(self) -> bool:
        kinds = (self.unknown, self.open_elsewhere, self.closed_elsewhere, self.lacking, self.cut_short)
        return not any(kind.ledgers for kind in kinds)


async def read(store: MetadataStore) -> Restored | None:
    """Returns the hold, or None if there is none. Raises MetadataError, and BadRecord for a hold written by a newer
    program."""
    found = await store.get(keys.RESTORED)
    return None if found is None else _decoded(found)


def _decoded(found: Versioned) -> Restored:
    message = parse_record(pb.Restored, keys.RESTORED, found.value, FORMAT_VERSION)
    return Restored(
        message.backup_ms,
        message.restored_ms,
        message.nonce,
        found.version,
        _noticed_in(message),
        message.is_rebuilt,
    )


def _noticed_in(message: pb.Restored) -> Noticed | None:
    if not message.HasField("noticed"):
        return None
    noticed = message.noticed
    return Noticed(noticed.bookie_id, noticed.compared, noticed.found, noticed.expected)


async def check_accepted(store: MetadataStore) -> None:
    """Raises MetadataRestored if there is a hold, and MetadataError if the store fails."""
    found = await store.get(keys.RESTORED)
    if found is None:
        return
    try:
        raise (
            MetadataRestored
            if await store.get(keys.LAYOUT)
            else MetadataRestored(_decoded(found).why_no_cluster)
        )
    except BadRecord as error:  # a newer program's hold
        raise MetadataRestored from error


async def begin(store: MetadataStore, *, backup_ms: int, now_ms: int, noticed: Noticed | None = None) -> None:
    """Sets the hold, unless there is one. Raises MetadataError; StoreRefused if the caller lacks the permission."""
    if await store.get(keys.RESTORED) is not None:
        return
    try:
        await settled_writes.create_unless_there(store, keys.RESTORED, _begun(backup_ms, now_ms, noticed))
    except StoreRefused as error:
        raise StoreRefused(
            f"the hold cannot be set, because there is no permission to write the key {keys.RESTORED!r} ({error}): run "
            "the commands that `bookledger metadata roles` prints"
        ) from error


async def begin_again(
    store: MetadataStore, *, backup_ms: int, now_ms: int, version: Version, is_rebuilt: bool = False
) -> None:
    """Replaces the hold if it still has this version. Raises KeyConflict, MetadataError."""
    value = _begun(backup_ms, now_ms, is_rebuilt=is_rebuilt)
    await settled_writes.replace(store, keys.RESTORED, value, version)


def _begun(backup_ms: int, now_ms: int, noticed: Noticed | None = None, *, is_rebuilt: bool = False) -> bytes:
    message = pb.Restored(
        format_version=FORMAT_VERSION,
        backup_ms=backup_ms,
        restored_ms=now_ms,
        nonce=settled_writes.new_nonce(),
        is_rebuilt=is_rebuilt,
    )
    if noticed is not None:
        message.noticed.CopyFrom(
            pb.Noticed(
                bookie_id=noticed.bookie_id,
                compared=noticed.compared,
                found=noticed.found,
                expected=noticed.expected,
            )
        )
    return encode_record(message)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The last acceptance of older metadata. `heard`: the bookies that were present, whose reports are included in the
    metadata; empty if no bookie was present."""

    nonce: bytes
    heard: frozenset[BookieRef]

    def is_without(self, bookie: BookieRef) -> bool:
        """Returns whether this bookie was absent at the acceptance."""
        return bool(self.heard) and bookie not in self.heard

    @property
    def number(self) -> int:
        """The number that identifies this acceptance; never 0."""
        return int.from_bytes(self.nonce[:8]) | 1


async def accepted(store: MetadataStore) -> Accepted | None:
    """Returns the last acceptance, or None if there is none. Raises MetadataError, and BadRecord for an acceptance
    written by a newer program."""
    found = await store.get(keys.ACCEPTED)
    if found is None:
        return None
    message = parse_record(pb.Restored, keys.ACCEPTED, found.value, FORMAT_VERSION)
    return Accepted(
        message.nonce, frozenset(BookieRef(one.bookie_id, one.incarnation) for one in message.heard)
    )


async def waiting(store: MetadataStore) -> list[BookieRef]:
    """Returns the bookies that were absent at the last acceptance, have come back, and have not reported since: they
    keep copies that the metadata places elsewhere. Raises MetadataError."""
    if (one := await accepted(store)) is None:
        return []
    return [it for it in await directory_generations.returned(store, one.number) if one.is_without(it)]


async def accept(store: MetadataStore, heard: Collection[BookieRef] = ()) -> bool:
    """Ends the hold, and records the acceptance and the bookies that were `heard`; returns whether there was a hold. If
    there was none, adds `heard` to the bookies of the last acceptance, unless that acceptance lists no bookies. Raises
    MetadataError."""
    found = await store.get(keys.RESTORED)
    if found is None:
        if heard and (one := await accepted(store)) is not None and one.heard:
            await settled_writes.change(
                store,
                keys.ACCEPTED,
                lambda value: value and _with_heard(value, heard),
                lambda _, value: value,
                bytes,
            )
        return False
    await settled_writes.put(store, keys.ACCEPTED, _with_heard(found.value, heard))
    async for item in list_all(store, keys.MISFITS):
        await settled_writes.delete_unless_changed(store, item.key, item.version)
    await settled_writes.delete_unless_changed(store, keys.RESTORED, found.version)
    return True


def _with_heard(value: bytes, heard: Collection[BookieRef]) -> bytes:
    message = pb.Restored.FromString(value)
    there = {BookieRef(one.bookie_id, one.incarnation) for one in message.heard}
    del message.heard[:]
    for one in sorted({*there, *heard}):
        message.heard.add(bookie_id=one.bookie_id, incarnation=one.incarnation)
    return encode_record(message)


async def may_be_older(store: MetadataStore) -> bool:
    """Returns whether the metadata may be older than a bookie's data: there is a hold, or an earlier hold was accepted.
    Raises MetadataError."""
    for key in (keys.RESTORED, keys.ACCEPTED):
        if await store.get(key) is not None:
            return True
    return False


async def publish_misfits(store: MetadataStore, misfits: Misfits) -> None:
    """Writes the bookie's findings, replacing those from an earlier restore. Raises MetadataError."""
    await settled_writes.put(store, keys.misfits(misfits.bookie.bookie_id), _encode(misfits))


async def read_misfits(store: MetadataStore, restored: Restored) -> dict[str, Misfits]:
    """Returns the findings for this restore, by the bookies' names; skips findings that cannot be decoded. Raises
    MetadataError."""
    found = {}
    async for item in list_all(store, keys.MISFITS):
        try:
            one = _decode(item.key, item.value)
        except BadRecord as error:
            skip(error)
        else:
            if one.restored_nonce == restored.nonce:
                found[one.bookie.bookie_id] = one
    return found


def _encode(misfits: Misfits) -> bytes:
    return encode_record(
        pb.Misfits(
            format_version=FORMAT_VERSION,
            incarnation=misfits.bookie.incarnation,
            restored_nonce=misfits.restored_nonce,
            unknown=misfits.unknown.ledgers,
            open_elsewhere=misfits.open_elsewhere.ledgers,
            closed_elsewhere=misfits.closed_elsewhere.ledgers,
            unknown_ledgers=misfits.unknown.first,
            open_ledgers=misfits.open_elsewhere.first,
            closed_ledgers=misfits.closed_elsewhere.first,
            lacking=misfits.lacking.ledgers,
            lacking_ledgers=misfits.lacking.first,
            cut_short=misfits.cut_short.ledgers,
            cut_short_ledgers=misfits.cut_short.first,
            nonce=settled_writes.new_nonce(),
        )
    )


def _decode(key: str, value: bytes) -> Misfits:
    message = parse_record(pb.Misfits, key, value, FORMAT_VERSION)
    return Misfits(
        BookieRef(key.removeprefix(keys.MISFITS), message.incarnation),
        message.restored_nonce,
        HoldKind(message.unknown, tuple(message.unknown_ledgers)),
        HoldKind(message.open_elsewhere, tuple(message.open_ledgers)),
        HoldKind(message.closed_elsewhere, tuple(message.closed_ledgers)),
        HoldKind(message.lacking, tuple(message.lacking_ledgers)),
        HoldKind(message.cut_short, tuple(message.cut_short_ledgers)),
    )
