"""Generations of bookie directories: the number of starts and a log position, which reveal an older copy of a
directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from .. import keys, settled_writes
from ..errors import BadRecord
from ..store import MetadataStore, Versioned, list_all
from ..version import Version, encode_record
from . import records_pb2 as pb
from .cluster import list_bookies
from .ledger_record import BookieRef
from .record_decoding import parse_record, skip
from .registration import Registration, of_message, to_message

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Life:
    """The number of a bookie's last start, and the durable position of its log some time after that start.

    `renewals` rises with every write of the record: if the number is lower than the bookie remembers, the record is an
    older copy. `last`: the bookie's registration at that time, and `at_ms`: the time by its own clock; None and 0 for a
    restored cookie until the bookie's next start. `returned`: the acceptance of older metadata (`Accepted.number`)
    after which the bookie came back, 0 for none.
    """

    number: int = 0
    position: int = 0
    renewals: int = 0
    last: Registration | None = None
    at_ms: int = 0
    returned: int = 0


async def read(store: MetadataStore, bookie_id: str, incarnation: str) -> Life:
    """Reads the generation of this incarnation; returns Life() if none is recorded. Raises BadRecord."""
    return (await _find(store, bookie_id, incarnation))[0]


async def write(
    store: MetadataStore, bookie_id: str, incarnation: str, life: Life, *, version: Version | None = None
) -> Version:
    """Writes the generation; returns the record's version. The holder of the registration is the only writer.

    `version`: the version that the caller's last write returned; None to replace any version.

    Raises KeyConflict if there is another writer, StoreUnavailable if the outcome remains unknown.
    """
    if version is None:
        _, version = await _find(store, bookie_id, incarnation)
    message = pb.Life(
        format_version=FORMAT_VERSION,
        incarnation=incarnation,
        number=life.number,
        position=life.position,
        renewals=life.renewals,
        last=None if life.last is None else to_message(life.last.outline),
        nonce=settled_writes.new_nonce(),
        at_ms=life.at_ms,
        returned=life.returned,
    )
    return await settled_writes.write(store, keys.life(bookie_id), encode_record(message), version)


async def _find(store: MetadataStore, bookie_id: str, incarnation: str) -> tuple[Life, Version | None]:
    """Returns (generation, version). The generation of another incarnation is ignored."""
    key = keys.life(bookie_id)
    found = await store.get(key)
    if found is None:
        return Life(), None
    return life_in(found, incarnation), found.version


def life_in(found: Versioned, incarnation: str) -> Life:
    """Returns this incarnation's generation from the key's value; Life() if the value belongs to another incarnation.
    Raises BadRecord."""
    message = parse_record(pb.Life, found.key, found.value, FORMAT_VERSION)
    if message.incarnation != incarnation:
        return Life()
    return Life(
        message.number,
        message.position,
        message.renewals,
        _last_of(message),
        message.at_ms,
        message.returned,
    )


def _last_of(message: pb.Life) -> Registration | None:
    return of_message(message.last) if message.HasField("last") else None


async def _lives(store: MetadataStore) -> AsyncIterator[tuple[BookieRef, pb.Life, int]]:
    """Yields the records of all bookies, and the version of each key. Raises MetadataError."""
    async for item in list_all(store, keys.LIVES):
        try:
            message = parse_record(pb.Life, item.key, item.value, FORMAT_VERSION)
        except BadRecord as error:
            skip(error)
        else:
            yield BookieRef(item.key.removeprefix(keys.LIVES), message.incarnation), message, item.version


async def last_registrations(store: MetadataStore) -> dict[BookieRef, Registration]:
    """Returns the last registration of each bookie, including absent ones. Raises MetadataError."""
    found = [_last_of(message) async for _, message, _ in _lives(store)]
    return {last.bookie: last for last in found if last is not None}


async def last_renewed(store: MetadataStore) -> dict[str, int]:
    """Returns the version of each bookie's key, by bookie name; omits the keys of programs that do not renew them."""
    return {one.bookie_id: at async for one, message, at in _lives(store) if message.renewals}


async def returned(store: MetadataStore, acceptance: int) -> list[BookieRef]:
    """Returns the bookies that came back after this acceptance of older metadata (`Accepted.number`). Raises
    MetadataError."""
    return sorted([one async for one, message, _ in _lives(store) if message.returned == acceptance])


async def time_ms(store: MetadataStore) -> int:
    """Returns a time that has already passed according to the clocks of half of the live bookies, so that a few fast
    clocks do not affect it.

    This is the median of the times at which the bookies last renewed their keys, so it lags by some seconds. Returns 0
    if too few bookies report their time, or if no bookie is alive. Raises MetadataError.
    """
    alive = {one.bookie for one in await list_bookies(store)}
    times = [message.at_ms async for one, message, _ in _lives(store) if one in alive]
    times = [0] * (len(alive) - len(times)) + sorted(times)
    return times[(len(times) - 1) // 2] if times else 0
