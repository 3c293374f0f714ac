"""Compares the notes that live bookies keep of their ledgers with the records, for `metadata check`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bookie.upkeep.inventory.metadata_reconciliation import Compared, Difference, Notes, bring_up, differences
from bookie.wire.messages import HeldNote
from bookledger.cluster.rebuilding.record_repair import find_stale_records
from bookledger.cluster.rebuilding.stale_record import NOT_IN_LEDGERS, StaleRecord
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.errors import BookieUnavailable
from metadata.backup import hold
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.store import MetadataStore

from ..config.clients import client_config
from ..membership.cluster_survey import with_store
from ..output import ProgressBar

LISTED_MAX = 1000
"""Maximum number of ledgers that are listed; further ones are only counted."""


@dataclass(slots=True)
class NoteComparison:
    """Ledgers whose notes on bookies are newer than the metadata, which has lost their records or has older ones.

    `waiting`: bookies that came back after older metadata was accepted without them.
    """

    lost: int = 0
    older: int = 0
    listed: list[Difference] = field(default_factory=list)
    seen: Compared = field(default_factory=Compared)
    waiting: list[str] = field(default_factory=list)
    stale: list[StaleRecord] = field(default_factory=list)
    chained: list[LedgerRecord] = field(default_factory=list)
    """The noted records of those ledgers that belong to logs and journals; `stale` covers these logs and journals."""

    @property
    def fits(self) -> bool:
        return not (self.lost or self.older or self.seen.unnoted or self.waiting or self.stale)

    @property
    def who_waits(self) -> dict[str, list[str]]:
        return {"waiting": self.waiting} if self.waiting else {}

    def add(self, one: Difference) -> None:
        self.lost += one.found is None
        self.older += one.found is not None
        if len(self.listed) < LISTED_MAX:
            self.listed.append(one)
        if one.is_of_chain:
            self.chained.append(one.record)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "ledger_id": one.ledger_id,
                "metadata": "nothing" if one.found is None else _words(one.found.record),
                "noted": _words(one.record),
                "noted_by": sorted({noted.bookie.bookie_id for noted in one.noted}),
            }
            for one in self.listed
        ]

    @property
    def stale_rows(self) -> list[dict[str, Any]]:
        return [
            {"behind": one.about, "missing": one.missing, "doubts": list(one.doubts)} for one in self.stale
        ]

    @property
    def what_will_be(self) -> str:
        """The effects of accepting the metadata, and what is not known about them."""
        lines = []
        if self.lost or self.older:
            lines.append(
                f"From the bookies' notes, {self.lost} ledgers that the metadata has lost are rebuilt, and "
                f"{self.older} records that are older than their ledgers are brought up to date; ledgers that were "
                "deleted since, and are not collected yet, reappear."
            )
        if self.stale:
            lines.append(
                f"{len(self.stale)} logs, sets and journals, which do not name their last ledgers, are brought up to "
                f"date with these; {NOT_IN_LEDGERS}."
            )
        if self.seen.unnoted:
            lines.append(
                f"{self.seen.unnoted} ledgers that the metadata does not know stay on disk and cannot be read, because "
                "no bookie has noted them."
            )
        if self.waiting:
            lines.append(
                f"{', '.join(self.waiting)} came back after older metadata was accepted: copies that this "
                "metadata places elsewhere are kept for now, and will be dropped if the copies there are complete."
            )
        for name, why in sorted(self.seen.silent.items()):
            lines.append(f"Bookie {name} did not report its notes ({why}).")
        return " ".join(lines)


def compare_notes(metadata_uri: str) -> NoteComparison:
    """Compares the notes of every live bookie with the metadata. Raises MetadataError."""
    compared = NoteComparison()

    async def work(store: MetadataStore) -> None:
        async with _notes(store, compared.seen) as notes:
            async for one in differences(store, notes, compared.seen, advance):
                compared.add(one)
        compared.waiting = [str(one) for one in await hold.waiting(store)]
        if compared.chained or await hold.read(store) is not None:
            compared.stale = [one async for one in find_stale_records(store, compared.chained)]

    with ProgressBar(
        "comparing with the bookies' notes", None, of="ledgers", is_mostly_quick=True
    ) as advance:
        with_store(metadata_uri, work)
    return compared


@dataclass(frozen=True, slots=True)
class RebuiltRecords:
    """The number of rebuilt ledger records; the rebuilt logs, sets and journals; and the bookies that have reported all
    their notes."""

    ledgers: int
    chains: list[StaleRecord]
    heard: set[BookieRef]


def rebuild_records(metadata_uri: str) -> RebuiltRecords:
    """Brings the metadata up to date with the notes of live bookies: first ledgers, then the logs and journals on them.
    The caller ensures that the metadata is on hold. Raises MetadataError; in that case, finished records are kept, and
    a retry completes the rest."""

    async def work(store: MetadataStore) -> RebuiltRecords:
        seen = Compared()
        async with _notes(store, seen) as notes:
            made = await bring_up(store, notes, seen, advance)
        chains = []
        if await hold.read(store) is not None:
            chains = [one async for one in find_stale_records(store)]
        for one in chains:
            await one.make()
        return RebuiltRecords(made, chains, {one for one in notes if one.bookie_id not in seen.silent})

    with ProgressBar("rebuilding records", None, of="ledgers", is_mostly_quick=True) as advance:
        return with_store(metadata_uri, work)


@asynccontextmanager
async def _notes(store: MetadataStore, seen: Compared) -> AsyncIterator[Notes]:
    bookies = ConnectedBookies(store, client_config())
    notes = {one.bookie: _notes_of(one.bookie, bookies, seen) for one in await list_bookies(store)}
    try:
        yield notes
    finally:
        for stream in notes.values():
            await stream.aclose()
        await bookies.close()


async def _notes_of(
    bookie: BookieRef, bookies: ConnectedBookies, seen: Compared
) -> AsyncGenerator[HeldNote, None]:
    """Yields the notes of a bookie until it stops answering, which is recorded in `seen`."""
    try:
        async with aclosing(bookies.notes(bookie)) as notes:
            async for one in notes:
                yield one
    except BookieUnavailable as error:
        seen.silent[bookie.bookie_id] = error.why


def _words(record: LedgerRecord) -> str:
    end = f" at entry {record.last_entry}" if record.is_closed else ""
    return f"{record.state.value}{end}, fragments: {len(record.fragments)}"
