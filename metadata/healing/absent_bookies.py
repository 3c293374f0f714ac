"""Absent bookies: formatted bookies that are not registered, and how long they have been absent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import keys, settled_writes
from ..errors import BadRecord
from ..records import records_pb2 as pb
from ..records.record_decoding import parse_record, skip
from ..store import MetadataStore, list_all
from ..version import encode_record

FORMAT_VERSION = 1

RESTART_MS = 30_000
"""A bookie that has been absent for less time than this may merely be restarting."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Absence of one incarnation of a bookie.

    `since_ms` is by the clock of the process that recorded it, and is only shown to people. Programs base their
    decisions on `absent_ms`, which auditors count.
    """

    bookie_id: str
    incarnation: str
    since_ms: int
    absent_ms: int = 0


async def list_absences(store: MetadataStore) -> list[Absence]:
    """Returns all absences that can be decoded, sorted by name. Raises MetadataError."""
    found = []
    async for item in list_all(store, keys.ABSENT):
        try:
            found.append(_decode(item.key, item.value))
        except BadRecord as error:
            skip(error)
    return found


async def note(store: MetadataStore, absence: Absence) -> None:
    """Records that the bookie is absent, unless its absence is already recorded. Raises MetadataError."""
    await settled_writes.create_unless_there(store, keys.absent(absence.bookie_id), _encode(absence))


async def count(store: MetadataStore, bookie_id: str, incarnation: str, absent_ms: int) -> None:
    """Records for how long the bookie has been absent, unless the incarnation is out of date or a longer time is
    recorded. Raises MetadataError."""

    def counted(absence: Absence | None) -> Absence | None:
        if absence is None or absence.incarnation != incarnation or absence.absent_ms >= absent_ms:
            return absence
        return replace(absence, absent_ms=absent_ms)

    await settled_writes.change(store, keys.absent(bookie_id), counted, _decode, _encode)


async def forget(store: MetadataStore, bookie_id: str) -> None:
    """Removes the record, because the bookie is back or was removed from the cluster. Raises MetadataError."""
    await settled_writes.delete(store, keys.absent(bookie_id))


def _encode(absence: Absence) -> bytes:
    return encode_record(
        pb.Absence(
            format_version=FORMAT_VERSION,
            incarnation=absence.incarnation,
            since_ms=absence.since_ms,
            absent_ms=absence.absent_ms,
            nonce=settled_writes.new_nonce(),
        )
    )


def _decode(key: str, value: bytes) -> Absence:
    message = parse_record(pb.Absence, key, value, FORMAT_VERSION, "absence")
    return Absence(key.removeprefix(keys.ABSENT), message.incarnation, message.since_ms, message.absent_ms)
