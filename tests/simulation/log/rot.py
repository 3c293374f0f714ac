"""Damage to records that are on the platter: a flipped bit, other bytes, a write that never happened, another's bytes.

A record is hit only where the product can tell it from a torn tail: where the checkpoint is past it, a later record
says that it was on disk, or a later segment exists. The very last group of a log has no such witness before one of
these comes; a bookie that loses it *and* starts again takes it for a tail that was never acknowledged.
"""

from __future__ import annotations

from bookie.log import segments
from bookie.log.format import RECORD_HEADER, BadRecordBytes, decode_header, place_of
from tests.bookie.simulated_disk import SimulatedDisk
from tests.simulation.engine.chance import Stream

from .promises import Promises

HOW = ("one bit", "a sector", "a lost write", "a misdirected write")


def is_witnessed(disk: SimulatedDisk, promises: Promises, position: int) -> bool:
    """Whether something on the platter proves that this place was on disk once."""
    segment, _ = place_of(position)
    numbers = [
        int(name.split(".")[0], 16) for name, data in disk.durable_contents().items() if len(data) >= 64
    ]
    if max(numbers) > segment:
        return True
    later = (p for p in promises.placed if p > position and p not in promises.damaged)
    return any(_synced(disk, other) > position for other in later)


def _synced(disk: SimulatedDisk, position: int) -> int:
    segment, offset = place_of(position)
    data = disk.durable_bytes(segments.name_of(segment), offset, offset + RECORD_HEADER.size)
    try:
        return decode_header(data, position=position).synced
    except BadRecordBytes:
        return 0


def spoil(disk: SimulatedDisk, promises: Promises, position: int, how: str, chance: Stream) -> None:
    """The record at this place is no longer what was written; its neighbours are."""
    segment, offset = place_of(position)
    name, size = segments.name_of(segment), RECORD_HEADER.size + _body_bytes(promises, position)
    at = offset + chance.below(size)
    before = disk.durable_bytes(name, offset, offset + size)
    byte = before[at - offset]
    end = min(offset + size, at + 1 + chance.below(32))
    match how:
        case "one bit":
            disk.rot(name, at, bytes([byte ^ 1 << chance.below(8)]))
        case "a lost write":
            disk.rot(name, offset, bytes(end - offset))
        case "a misdirected write":
            whole = promises.placed.keys() - promises.damaged - {position}
            others = sorted(p for p in whole if place_of(p)[0] == segment)
            other = place_of(chance.choice(others))[1] if others else 0
            data = disk.durable_bytes(name, other, other + size)
            disk.rot(name, offset, data[:size])
        case _:
            disk.rot(name, at, bytes([byte ^ 0x55]) + bytes(chance.below(256) for _ in range(end - at - 1)))
    assert disk.durable_bytes(name, offset, offset + size) != before
    promises.damaged.add(position)


def _body_bytes(promises: Promises, position: int) -> int:
    """Without the padding, which no checksum covers."""
    record, _ = promises.placed[position]
    lac, columns = record.last_add_confirmed, record.columns
    body = (len(lac.digest) if lac else 0) + len(record.verifier)
    return body + (columns.size_bytes if columns is not None else 0)
