"""Generates ledger ids: unique for ever, rising, never reused, from one counter by compare-and-swap."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from .. import keys, settled_writes
from ..errors import BadRecord, KeyExists, MetadataRestored, VersionConflict
from ..store import MetadataStore
from . import records_pb2 as pb

FIRST_LEDGER_ID = 1
CONFLICTS_MAX = 1000
"""Conflicts in a row after which it is not contention but a fault."""


async def take_ledger_ids(store: MetadataStore, count: int) -> range:
    """Takes `count` ids that no other caller gets; fewer at the very end. A crash skips them, no more.

    Raises MetadataRestored, and takes none, while metadata that went back is not accepted: the counter may be older
    than what bookies hold.
    """
    assert count >= 1
    for _ in range(CONFLICTS_MAX):
        found = await store.get(keys.NEXT_LEDGER_ID)
        try:
            if found is None:
                first, end = FIRST_LEDGER_ID, FIRST_LEDGER_ID + count
                await settled_writes.create(store, keys.NEXT_LEDGER_ID, encode(end), unless=keys.RESTORED)
            else:
                first = _decode(found.value)
                end = max(first + 1, min(first + count, keys.LEDGER_ID_MAX))
                await settled_writes.replace(
                    store, keys.NEXT_LEDGER_ID, encode(end), found.version, unless=keys.RESTORED
                )
            return range(first, end)
        except KeyExists as barred:
            if barred.key == keys.RESTORED:
                raise MetadataRestored from barred
        except VersionConflict:
            pass  # as after the other KeyExists: another creator was faster, read again
    raise BadRecord(keys.NEXT_LEDGER_ID, f"{CONFLICTS_MAX} attempts to take an id met a conflict")


async def next_ledger_id(store: MetadataStore) -> int:
    """Takes one id that no other caller gets."""
    return (await take_ledger_ids(store, 1))[0]


async def count_beyond(store: MetadataStore, ledger_id: int) -> None:
    """Raises the counter above this id. It never goes back."""
    for _ in range(CONFLICTS_MAX):
        found = await store.get(keys.NEXT_LEDGER_ID)
        if found is not None and _decode(found.value) > ledger_id:
            return
        value = encode(ledger_id + 1)
        try:
            if found is None:
                await settled_writes.create(store, keys.NEXT_LEDGER_ID, value)
            else:
                await settled_writes.replace(store, keys.NEXT_LEDGER_ID, value, found.version)
        except (KeyExists, VersionConflict):  # another client took an id meanwhile: try again
            continue
    raise BadRecord(keys.NEXT_LEDGER_ID, f"{CONFLICTS_MAX} attempts to raise it met a conflict")


async def counted_end(store: MetadataStore) -> int:
    """The next id of the counter. Used ids from there on were chosen by hand."""
    found = await store.get(keys.NEXT_LEDGER_ID)
    return FIRST_LEDGER_ID if found is None else _decode(found.value)


def encode(next_id: int) -> bytes:
    """Encodes the value of `ids/ledger`."""
    return pb.NextId(next_id=next_id, nonce=settled_writes.new_nonce()).SerializeToString()


def _decode(value: bytes) -> int:
    try:
        next_id = pb.NextId.FromString(value).next_id
    except DecodeError as error:
        raise BadRecord(keys.NEXT_LEDGER_ID, str(error)) from error
    if not FIRST_LEDGER_ID <= next_id <= keys.LEDGER_ID_MAX:
        raise BadRecord(keys.NEXT_LEDGER_ID, f"{next_id} is no ledger's id")
    return next_id
