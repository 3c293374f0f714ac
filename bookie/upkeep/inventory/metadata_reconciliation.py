"""Compares the bookies' notes of their ledgers with the metadata, and updates the metadata from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from metadata import keys
from metadata.errors import BadRecord
from metadata.healing.marks import Marks, mark_if_underreplicated
from metadata.records import ledger_ids
from metadata.records.ledger_record import JOURNAL, SEGMENT, BookieRef, LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.record_reconstruction import NotedBy, reconcile
from metadata.records.record_decoding import refuse, skip
from metadata.settled_writes import until_changed
from metadata.store import MetadataStore

from ...index.notes_table import NotesTable
from ...wire.messages import HeldNote
from ..threads import in_thread
from .unknown_ids import COUNTED_MAX

AT_ONCE = 64
"""Maximum number of concurrent changes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A ledger for which bookies have a later state than the metadata does. `found`: the record in the metadata, if
    there is one; `record`: the record that the metadata should have."""

    ledger_id: int
    found: VersionedRecord | None
    record: LedgerRecord
    noted: tuple[NotedBy, ...]

    @property
    def is_of_chain(self) -> bool:
        """Whether the ledger is a segment of a log or of a journal; the record of that log or journal may need an
        update, too."""
        return bool({SEGMENT, JOURNAL} & self.record.custom_metadata.keys())


@dataclass(slots=True)
class Compared:
    """Findings of a comparison, updated while it runs. `silent`: bookies that did not send all of their notes, and why.
    `unnoted`: ledgers held by bookies, of which neither the bookies nor the metadata know more than the id. `unsure`:
    open ledgers without notes, whose records may therefore be outdated. `of_chains`: segments of which bookies have a
    later state than the metadata. `highest`: the highest id that the counter assigned and that is missing from the
    metadata.
    """

    silent: dict[str, str] = field(default_factory=dict)
    unnoted: int = 0
    unsure: int = 0
    of_chains: int = 0
    highest: int = -1


Notes = Mapping[BookieRef, AsyncGenerator[HeldNote, None]]
"""The notes of each bookie, ordered by ledger and first entry."""


async def kept_in(notes: NotesTable) -> AsyncGenerator[HeldNote, None]:
    """Yields the notes of one bookie as of its last checkpoint, page by page."""
    first, is_last = (0, 0), False
    while not is_last:
        page, is_last = await in_thread(notes.page, *first)
        for one in page:
            yield one
        first = (page[-1].ledger_id, page[-1].first_entry + 1) if page else first


class _Stream:
    """The notes of one bookie, read one note ahead."""

    def __init__(self, bookie: BookieRef, notes: AsyncGenerator[HeldNote, None]) -> None:
        self._bookie = bookie
        self._notes = notes
        self.head: HeldNote | None = None

    async def advance(self) -> None:
        self.head = await anext(self._notes, None)

    async def take(self, ledger_id: int) -> list[NotedBy]:
        """Takes all of the bookie's notes of this ledger; its notes of ledgers with lower ids must have been taken
        already."""
        taken = []
        while self.head is not None and self.head.ledger_id == ledger_id:
            try:
                if self.head.note:
                    taken.append(NotedBy(self._bookie, fragment_note.decode(self.head.note)))
            except BadRecord as error:
                skip(error)
            await self.advance()
        return taken


async def differences(
    store: MetadataStore, notes: Notes, seen: Compared, on_ledger: Callable[[int], object] = lambda _: None
) -> AsyncIterator[Difference]:
    """Yields, in order of id, the ledgers for which the bookies have a later state than the metadata does. Raises
    MetadataError."""
    ledgers = LedgerStore(store)
    streams = [_Stream(bookie, stream) for bookie, stream in notes.items()]
    await asyncio.gather(*(stream.advance() for stream in streams))
    async with aclosing(ledgers.list_with_deleted(on_unreadable=refuse)) as listed:  # type: ignore[type-var]
        record = await anext(listed, None)
        while heads := [stream.head.ledger_id for stream in streams if stream.head is not None]:
            ledger_id = min(heads)
            noted = [one for stream in streams for one in await stream.take(ledger_id)]
            while record is not None and record.ledger_id < ledger_id:
                record = await anext(listed, None)
            found = record if record is not None and record.ledger_id == ledger_id else None
            seen.unnoted += found is None and not noted
            seen.unsure += isinstance(found, VersionedRecord) and not (noted or found.record.is_closed)
            if found is None and ledger_id < COUNTED_MAX:
                seen.highest = ledger_id
            if (difference := await _difference(ledgers, ledger_id, found, noted)) is not None:
                seen.of_chains += difference.is_of_chain
                yield difference
            on_ledger(1)


async def _difference(
    ledgers: LedgerStore, ledger_id: int, found: VersionedRecord | Tombstone | None, noted: list[NotedBy]
) -> Difference | None:
    if _better(found, noted) is None:
        return None
    now = await _now(
        ledgers, ledger_id
    )  # the bookies may have received newer notes since the record was listed
    record = _better(now, noted)
    if record is None or isinstance(now, Tombstone):
        return None
    return Difference(ledger_id, now, record, tuple(noted))


def _better(found: VersionedRecord | Tombstone | None, noted: list[NotedBy]) -> LedgerRecord | None:
    """Returns the record that results from the notes if it is later than the one found, otherwise None. Also returns
    None if the ledger is known to be deleted or the notes are inconsistent."""
    if isinstance(found, Tombstone):
        return None
    try:
        return reconcile(None if found is None else found.record, noted)
    except ValueError as error:  # the notes come from the ledger's writer, so they can be wrong
        skip(BadRecord(keys.ledger(noted[0].note.ledger_id), f"the bookies' notes are inconsistent: {error}"))
        return None


async def _now(ledgers: LedgerStore, ledger_id: int) -> VersionedRecord | Tombstone | None:
    return await ledgers.read(ledger_id) or await ledgers.tombstone(ledger_id)


async def bring_up(
    store: MetadataStore, notes: Notes, seen: Compared, on_ledger: Callable[[int], object] = lambda _: None
) -> int:
    """Writes the records that `differences` yields, by compare-and-swap; returns the number of records. Also ensures
    that no id is used twice.

    Raises MetadataError; in that case the records already written remain, and another run can write the rest.
    """
    ledgers, batch, made = LedgerStore(store), list[Difference](), 0
    async for one in differences(store, notes, seen, on_ledger):
        batch.append(one)
        if len(batch) == AT_ONCE:
            await _make_all(ledgers, batch)
            made, batch = made + len(batch), []
    await _make_all(ledgers, batch)
    if seen.highest >= await ledger_ids.counted_end(store):
        await ledger_ids.count_beyond(store, seen.highest)
    return made + len(batch)


async def _make_all(ledgers: LedgerStore, batch: list[Difference]) -> None:
    outcomes = await asyncio.gather(*(_make(ledgers, one) for one in batch), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def _make(ledgers: LedgerStore, one: Difference) -> None:
    async def attempt(found: VersionedRecord | Tombstone | None) -> None:
        record = one.record if found is one.found else _better(found, list(one.noted))
        if record is None or isinstance(found, Tombstone):
            return  # deleted, or updated by another process
        if found is None:
            await ledgers.create(record, while_held=True)
        else:
            await ledgers.change(record, found.version)
        await mark_if_underreplicated(Marks(ledgers.store), record)

    await until_changed(f"ledger {one.ledger_id}", one.found, attempt, partial(_now, ledgers, one.ledger_id))
