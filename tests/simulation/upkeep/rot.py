"""Damage to what stands on the platter, and who is excused for it.

A record is hit only where the log can tell it from a torn tail: in a segment that another follows, or where a later
record that is whole says that it was on disk. The last group of a log has no such witness, which is a known limit.
"""

from __future__ import annotations

from collections.abc import Container

from bookie.log import segment_files
from bookie.log.format import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    BookieLogRecord,
    decode_header,
    place_of,
    record_bytes,
)
from tests.simulation.engine.chance import Stream

from .plan import Rot
from .probes import UpkeepProbe
from .site import Site

Hit = tuple[int, BookieLogRecord]
"""A record and where it stands."""


def rot(site: Site, step: Rot) -> None:
    """What the step says, if there is anything to hit."""
    chance = site.stream("rot", str(step.nth), step.how)
    if step.how == "the header":
        names = site.machine.sealed()
        if names:
            _spoil(site, names[step.nth % len(names)], chance.below(SEGMENT_HEADER.size), 1, chance)
        return
    hits = _witnessed(site)
    if hits:
        _hit(site, hits, hits[step.nth % len(hits)], step.how, chance)


def lose_segment(site: Site, nth: int) -> None:
    """One of the sealed segments is gone."""
    names = site.machine.sealed()
    if not names:
        return
    name = names[nth % len(names)]
    here = {p: record for p, record in site.durable if segment_files.name_of(place_of(p)[0]) == name}
    for record in here.values():
        excuse(site, record, here)
    site.machine.disk.lose(name)
    site.is_damaged = True
    site.note("lost %s", name)
    site.reached(UpkeepProbe.SEGMENT_LOST)


def excuse(site: Site, record: BookieLogRecord, lost: Container[int]) -> None:
    """A copy of what this record says is lost, with all that stands at the `lost` positions.

    An entry of which the index knows another whole copy, one that compaction is not about to leave, is to be given
    still. While a segment is emptied either copy may be the one that is left: what was just copied is on the disk
    before the index knows of it.
    """
    if record.ledger_id < 0:
        return
    ledger = site.ledgers.of(record.ledger_id)
    if record.columns is None or not len(record.columns):
        ledger.state_excused = True
        return
    ledger.damaged.update(record.columns.ids)
    index = site.machine.index
    leaving = {place.position for part in (index._recent, index._moving) for _, place in part.removed}
    known = {place.position for _, place in index.places(record.ledger_id)} - leaving
    elsewhere = {
        entry_id
        for position, other in site.durable
        if other.ledger_id == record.ledger_id and other.columns is not None
        if position in known and position not in lost
        for entry_id in other.columns.ids
    }
    if site.under_way["emptying"]:
        elsewhere = set()
    ledger.excused.update(set(record.columns.ids) - elsewhere)


def _witnessed(site: Site) -> list[Hit]:
    found = list(site.durable)
    if not found:
        return []
    sealed = set(site.machine.sealed())
    witness = found[-1][0]
    synced = _synced(site, witness)
    return [
        (position, record)
        for position, record in found
        if segment_files.name_of(place_of(position)[0]) in sealed
        or (position < synced and position != witness)
    ]


def _synced(site: Site, position: int) -> int:
    segment, offset = place_of(position)
    name = segment_files.name_of(segment)
    header = site.machine.disk.durable_bytes(name, offset, offset + RECORD_HEADER.size)
    return decode_header(header, position=position).synced


def _hit(site: Site, hits: list[Hit], hit: Hit, how: str, chance: Stream) -> None:
    position, record = hit
    segment, offset = place_of(position)
    name, size = segment_files.name_of(segment), record_bytes(record)
    excuse(site, record, (position,))
    match how:
        case "a lost write":
            site.machine.disk.rot(name, offset, bytes(size))
        case "a misdirected write":
            here = [place_of(p)[1] for p, _ in hits if place_of(p)[0] == segment and p != position]
            other = chance.choice(here) if here else 0
            data = site.machine.disk.durable_bytes(name, other, other + size)
            site.machine.disk.rot(name, offset, data)
        case _:
            # Behind the checksum's own bytes there may be padding, which nothing protects.
            at = chance.below(RECORD_HEADER.size)
            _spoil(
                site, name, offset + at, 1 if how == "one bit" else min(32, RECORD_HEADER.size - at), chance
            )
    site.is_damaged = True
    site.note("rot of %s at %s of %s, %s", record.kind.name, offset, name, how)


def _spoil(site: Site, name: str, offset: int, size: int, chance: Stream) -> None:
    before = site.machine.disk.durable_bytes(name, offset, offset + size)
    data = bytes(byte ^ (1 << chance.below(8)) for byte in before)
    site.machine.disk.rot(name, offset, data)
    site.is_damaged = True
    site.note("rot of %s bytes at %s of %s", size, offset, name)
