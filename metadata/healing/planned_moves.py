"""Planned moves of copies between bookies, to balance disk usage: operators plan them, bookies execute them.

A bookie that was to take a copy drops a move that does not fit the ledger's record any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from .. import keys, settled_writes
from ..errors import BadRecord, KeyExists, NoSuchKey, VersionConflict
from ..records import records_pb2 as pb
from ..records.ledger_record import BookieRef
from ..records.unreadable import skip
from ..store import MetadataStore, Versioned, list_all

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Move:
    """Replaces `old` by `new` in the fragment that begins at `first_entry`."""

    first_entry: int
    old: BookieRef
    new: BookieRef


@dataclass(frozen=True, slots=True)
class Moves:
    """Planned moves of one ledger."""

    ledger_id: int
    moves: tuple[Move, ...]


async def list_moves(store: MetadataStore) -> AsyncIterator[Moves]:
    """All that can be decoded, by ledger. Raises MetadataError."""
    async for item in list_all(store, keys.MOVES):
        try:
            found = _decode(item)
        except BadRecord as error:
            skip(error)
        else:
            yield found


async def plan(store: MetadataStore, moves: Moves) -> None:
    """Replaces the ledger's planned moves. Raises MetadataError."""
    key = keys.moves(moves.ledger_id)
    found = await store.get(key)
    try:
        if found is None:
            await settled_writes.create(store, key, _encode(moves))
        else:
            await settled_writes.replace(store, key, _encode(moves), found.version)
    except (KeyExists, NoSuchKey, VersionConflict):  # another operator's plan, or a move just done
        pass


async def drop(store: MetadataStore, ledger_id: int, done: Iterable[Move]) -> None:
    """Removes moves that are done, or cannot be. Raises MetadataError."""
    key, over = keys.moves(ledger_id), set(done)
    found = await store.get(key)
    if found is None:
        return
    left = tuple(move for move in _decode(found).moves if move not in over)
    try:
        if left:
            await settled_writes.replace(store, key, _encode(Moves(ledger_id, left)), found.version)
        else:
            await store.delete(key, found.version)
    except (NoSuchKey, VersionConflict):  # another bookie has just dropped its own: drop ours the next time
        pass


async def cancel(store: MetadataStore) -> int:
    """Removes all planned moves; returns the number of ledgers that had some. Raises MetadataError."""
    count = 0
    async for item in list_all(store, keys.MOVES):
        try:
            await store.delete(item.key, item.version)
            count += 1
        except (NoSuchKey, VersionConflict):  # being executed
            pass
    return count


def _encode(moves: Moves) -> bytes:
    return pb.Moves(
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
    ).SerializeToString()


def _decode(item: Versioned) -> Moves:
    try:
        message = pb.Moves.FromString(item.value)
    except DecodeError as error:
        raise BadRecord(item.key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(
            item.key, f"moves of version {message.format_version}; this program knows {FORMAT_VERSION}"
        )
    return Moves(
        keys.ledger_id_of(item.key),
        tuple(
            Move(
                one.first_entry,
                BookieRef(one.old_bookie, one.old_incarnation),
                BookieRef(one.new_bookie, one.new_incarnation),
            )
            for one in message.moves
        ),
    )
