"""Planned moves of copies between bookies, to balance disk usage: operators plan them, bookies execute them.

A bookie that was to receive a copy drops the move if it no longer fits the ledger's record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from .. import keys, settled_writes
from ..errors import BadRecord
from ..records import records_pb2 as pb
from ..records.ledger_record import BookieRef
from ..records.record_decoding import skip
from ..store import MetadataStore, list_all
from ..version import encode_record

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Move:
    """Replaces `old` with `new` in the fragment that begins at `first_entry`."""

    first_entry: int
    old: BookieRef
    new: BookieRef


@dataclass(frozen=True, slots=True)
class Moves:
    """Planned moves of one ledger."""

    ledger_id: int
    moves: tuple[Move, ...]


async def list_moves(store: MetadataStore) -> AsyncIterator[Moves]:
    """Yields all planned moves that can be decoded, in order of ledger id. Raises MetadataError."""
    async for item in list_all(store, keys.MOVES):
        try:
            found = _decode(item.key, item.value)
        except BadRecord as error:
            skip(error)
        else:
            yield found


async def plan(store: MetadataStore, moves: Moves) -> None:
    """Replaces the ledger's planned moves. Raises MetadataError."""
    await settled_writes.put(store, keys.moves(moves.ledger_id), _encode(moves))


async def drop(store: MetadataStore, ledger_id: int, done: Iterable[Move]) -> None:
    """Removes moves that are done or have become impossible. Raises MetadataError."""
    over = set(done)

    def left(planned: Moves | None) -> Moves | None:
        moves = () if planned is None else tuple(move for move in planned.moves if move not in over)
        return Moves(ledger_id, moves) if moves else None

    await settled_writes.change(store, keys.moves(ledger_id), left, _decode, _encode)


async def cancel(store: MetadataStore) -> int:
    """Removes all planned moves; returns the number of ledgers that had any. Raises MetadataError."""
    count = 0
    async for item in list_all(
        store, keys.MOVES
    ):  # a plan that has changed since it was listed is kept: it is being executed
        count += await settled_writes.delete_unless_changed(store, item.key, item.version)
    return count


def _encode(moves: Moves) -> bytes:
    return encode_record(
        pb.Moves(
            format_version=FORMAT_VERSION,
            moves=[
                pb.Move(
                    first_entry=one.first_entry,
                    old_bookie=one.old.bookie_id,
                    old_incarnation=one.old.incarnation,
                    new_bookie=one.new.bookie_id,
                    new_incarnation=one.new.incarnation,
                )
                for one in moves.moves
            ],
            nonce=settled_writes.new_nonce(),
        )
    )


def _decode(key: str, value: bytes) -> Moves:
    try:
        message = pb.Moves.FromString(value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(
            key, f"format version {message.format_version}; this program supports {FORMAT_VERSION}"
        )
    return Moves(
        keys.ledger_id_of(key),
        tuple(
            Move(
                one.first_entry,
                BookieRef(one.old_bookie, one.old_incarnation),
                BookieRef(one.new_bookie, one.new_incarnation),
            )
            for one in message.moves
        ),
    )
