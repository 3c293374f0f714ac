"""Hold on restored metadata: until an operator accepts it, nothing is created, recovered, re-replicated or collected.

A backup is older than what the bookies hold. Ledgers made since are unknown to it; of others it names bookies that
were replaced since, and would have the copies of their replacements collected. So each bookie reports here which of
its entries do not match.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .. import keys, settled_writes
from ..errors import BadRecord, MetadataRestored, StoreRefused
from ..records import directory_generations
from ..records import records_pb2 as pb
from ..records.ledger_record import BookieRef
from ..records.unreadable import parsed, skip
from ..store import MetadataStore, Versioned, list_all

FORMAT_VERSION = 1

BEING_RESTORED = (
    "a backup was being restored here: finish that first, with the same file (`bookledger metadata restore`)"
)

BEING_REBUILT = "the metadata was being made again here: do that once more (`bookledger metadata rebuild`)"

EMPTIED = (
    "the metadata of the cluster that was here is gone, as its bookies have noticed: stop all bookies and clients, put "
    "a backup in its place (`bookledger metadata restore`), and start the bookies again; without a backup, let the "
    "bookies run, and make it again from what they hold (`bookledger metadata rebuild`)"
)

LEDGERS_NAMED_MAX = 100
"""Ledgers of each kind that a bookie lists by id."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """What showed a bookie that the metadata went back: of what it `compared`, in words, it `found` one number and
    `expected` at least the other; both are 0 where the words say all."""

    bookie_id: str
    compared: str
    found: int
    expected: int

    def __str__(self) -> str:
        if not self.expected:
            return f"bookie {self.bookie_id} found {self.compared}"
        at_least = f"{self.expected} or more was expected"
        return f"bookie {self.bookie_id} found {self.compared} at {self.found}, where {at_least}"


@dataclass(frozen=True, slots=True)
class Restored:
    """When the backup was made, 0 if bookies have noticed it, and when it was restored. `nonce` identifies the restore,
    `version` is the key's. `noticed`: which bookie did, and how; None after a restore, or if it was not recorded.
    `is_rebuilt`: it was no backup, but what the bookies hold."""

    backup_ms: int
    restored_ms: int
    nonce: bytes
    version: int
    noticed: Noticed | None = None
    is_rebuilt: bool = False

    @property
    def why_no_cluster(self) -> str:
        """Why there is a hold without a cluster's layout, and what to do."""
        if self.is_rebuilt:
            return BEING_REBUILT
        return BEING_RESTORED if self.backup_ms else EMPTIED


@dataclass(frozen=True, slots=True)
class HoldKind:
    """Number of ledgers with a kind of mismatch, and the first of them."""

    ledgers: int = 0
    first: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: Sequence[int]) -> HoldKind:
        return cls(len(found), tuple(found[:LEDGERS_NAMED_MAX]))


@dataclass(frozen=True, slots=True)
class Misfits:
    """Mismatches between one bookie's entries and the restored metadata.

    `unknown`: ledgers newer than the backup; they are kept, and cannot be read. `open_elsewhere`: ledgers that are
    not closed, of which it holds entries that are placed elsewhere; a recovery could miss these. `closed_elsewhere`:
    the same of closed ones; another bookie should hold them, or did before it was replaced. `lacking`: ledgers of
    which it lacks entries that are placed here; the records of closed ones say so, too. Of an open one nothing at
    all is here: it may be empty, or was deleted after the backup, and would come back as empty. `cut_short`: ledgers
    that were closed before entries that it proves to be confirmed; it keeps what it has of them.
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
    """Reads the hold; None if there is none. Raises MetadataError, and BadRecord for a hold of a newer program."""
    found = await store.get(keys.RESTORED)
    return None if found is None else _decoded(found)


def _decoded(found: Versioned) -> Restored:
    message = parsed(pb.Restored, keys.RESTORED, found.value, FORMAT_VERSION)
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
    """Raises MetadataRestored while there is a hold, and MetadataError."""
    found = await store.get(keys.RESTORED)
    if found is None:
        return
    try:
        raise (
            MetadataRestored
            if await store.get(keys.LAYOUT)
            else MetadataRestored(_decoded(found).why_no_cluster)
        )
    except BadRecord as error:  # a newer program holds it back
        raise MetadataRestored from error


async def begin(store: MetadataStore, *, backup_ms: int, now_ms: int, noticed: Noticed | None = None) -> None:
    """Sets the hold, unless there is one. Raises MetadataError; StoreRefused where the caller may not."""
    if await store.get(keys.RESTORED) is not None:
        return
    try:
        await settled_writes.create_unless_there(store, keys.RESTORED, _begun(backup_ms, now_ms, noticed))
    except StoreRefused as error:
        raise StoreRefused(
            f"nothing can be held back, for the key {keys.RESTORED!r} may not be written ({error}): grant what "
            "`bookledger metadata roles` prints"
        ) from error


async def begin_again(
    store: MetadataStore, *, backup_ms: int, now_ms: int, version: int, is_rebuilt: bool = False
) -> None:
    """Sets the hold in place of one at this version. Raises KeyConflict, MetadataError."""
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
    return message.SerializeToString()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The last acceptance of older metadata, and the bookies that were there: what they know stands in it. Nobody is
    named where no bookie was."""

    nonce: bytes
    heard: frozenset[BookieRef]

    def is_without(self, bookie: BookieRef) -> bool:
        """Whether this bookie was away."""
        return bool(self.heard) and bookie not in self.heard

    @property
    def number(self) -> int:
        """Tells this acceptance from others; not 0."""
        return int.from_bytes(self.nonce[:8]) | 1


async def accepted(store: MetadataStore) -> Accepted | None:
    """Raises MetadataError, and BadRecord for an acceptance by a newer program."""
    found = await store.get(keys.ACCEPTED)
    if found is None:
        return None
    message = parsed(pb.Restored, keys.ACCEPTED, found.value, FORMAT_VERSION)
    return Accepted(
        message.nonce, frozenset(BookieRef(one.bookie_id, one.incarnation) for one in message.heard)
    )


async def waiting(store: MetadataStore) -> list[BookieRef]:
    """Bookies that were away at the last acceptance, are back, and were not heard since: they keep copies that are
    placed elsewhere. Raises MetadataError."""
    if (one := await accepted(store)) is None:
        return []
    return [it for it in await directory_generations.returned(store, one.number) if one.is_without(it)]


async def accept(store: MetadataStore, heard: Collection[BookieRef] = ()) -> bool:
    """Ends the hold, and notes that there was one, and who of the bookies was `heard`; returns whether there was. Where
    there was none, more have been heard since it was accepted. Raises MetadataError."""
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
    return message.SerializeToString()


async def may_be_older(store: MetadataStore) -> bool:
    """Whether the metadata may be older than a bookie: it is held back, or was once, and accepted. Raises
    MetadataError."""
    for key in (keys.RESTORED, keys.ACCEPTED):
        if await store.get(key) is not None:
            return True
    return False


async def tell(store: MetadataStore, misfits: Misfits) -> None:
    """Writes the bookie's findings over those of an earlier restore. Raises MetadataError."""
    await settled_writes.put(store, keys.misfits(misfits.bookie.bookie_id), _encode(misfits))


async def told(store: MetadataStore, restored: Restored) -> dict[str, Misfits]:
    """Reads the bookies' findings for this restore, by name; skips undecodable ones. Raises MetadataError."""
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
    return pb.Misfits(
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
    ).SerializeToString()


def _decode(key: str, value: bytes) -> Misfits:
    message = parsed(pb.Misfits, key, value, FORMAT_VERSION)
    return Misfits(
        BookieRef(key.removeprefix(keys.MISFITS), message.incarnation),
        message.restored_nonce,
        HoldKind(message.unknown, tuple(message.unknown_ledgers)),
        HoldKind(message.open_elsewhere, tuple(message.open_ledgers)),
        HoldKind(message.closed_elsewhere, tuple(message.closed_ledgers)),
        HoldKind(message.lacking, tuple(message.lacking_ledgers)),
        HoldKind(message.cut_short, tuple(message.cut_short_ledgers)),
    )
