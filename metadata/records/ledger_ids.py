"""Generates ledger ids: unique, increasing and never reused, taken from one counter by compare-and-swap."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from .. import keys, settled_writes
from ..errors import BadRecord
from ..store import MetadataStore
from ..version import encode_record
from . import records_pb2 as pb

FIRST_LEDGER_ID = 1


async def take_ledger_ids(store: MetadataStore, count: int) -> range:
    """Takes `count` ids that no other caller gets, or fewer if the ids run out. A crash merely leaves the ids unused.

    If the metadata has reverted to an older copy, raises MetadataRestored, and takes no ids, until an operator accepts
    the metadata: the counter may be lower than the ids of the bookies' ledgers.
    """
    assert count >= 1

    def taken(next_id: int | None) -> int:
        first = next_id or FIRST_LEDGER_ID
        return max(first + 1, min(first + count, keys.LEDGER_ID_MAX))

    change = settled_writes.change(store, keys.NEXT_LEDGER_ID, taken, _decode, encode, unless=keys.RESTORED)
    first, end = await change
    assert end is not None
    return range(first or FIRST_LEDGER_ID, end)


async def count_beyond(store: MetadataStore, ledger_id: int, key: str = keys.NEXT_LEDGER_ID) -> None:
    """Raises the counter above this id. Never lowers it."""
    await settled_writes.change(store, key, lambda next_id: max(next_id or 0, ledger_id + 1), _decode, encode)


async def counted_end(store: MetadataStore) -> int:
    """Returns the id that the counter assigns next. If this id or a higher one is in use, a caller has chosen it."""
    return await _end(store, keys.NEXT_LEDGER_ID)


async def retired_end(store: MetadataStore) -> int:
    """Returns the end of the retired ids. An id below it that has no key belonged to a deleted ledger, or was never
    used."""
    return await _end(store, keys.RETIRED_IDS)


async def _end(store: MetadataStore, key: str) -> int:
    found = await store.get(key)
    return FIRST_LEDGER_ID if found is None else _decode(found.key, found.value)


def encode(next_id: int) -> bytes:
    """Encodes the value of `ids/ledger`."""
    return encode_record(pb.NextId(next_id=next_id, nonce=settled_writes.new_nonce()))


def _decode(key: str, value: bytes) -> int:
    try:
        next_id = pb.NextId.FromString(value).next_id
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if not FIRST_LEDGER_ID <= next_id <= keys.LEDGER_ID_MAX:
        raise BadRecord(key, f"{next_id} is not a valid ledger id")
    return next_id
