"""Ledgers that say they are a journal's, and that nothing refers to: what a crash left between two steps."""

from __future__ import annotations

from collections.abc import Iterable

from ledgers import LedgerError, NoSuchLedger
from metadata.ledger_record import LedgerRecord

from ..errors import JournalUnavailable
from ..segment_ledgers import ACCEPTOR_OF_LEDGER, JOURNAL_OF_LEDGER, SEGMENT_OF_LEDGER
from .acceptor_seen import AcceptorSeen
from .findings import Orphan
from .survey import Survey

ORPHAN_AGE_SECONDS = 3600.0
"""A ledger is made before anything refers to it, and a copy is written in between: so old is long past that."""


async def find_orphans(survey: Survey, uris: Iterable[str], age_seconds: float) -> list[Orphan]:
    """The orphans that are older than `age_seconds`, in these clusters of the journal. Raises JournalUnavailable."""
    found: list[Orphan] = []
    for uri in sorted(uris):
        labelled = await _labelled(survey, uri, age_seconds)
        acceptors = await survey.look_at_others(uri)  # after the listing: what is referred to by now is none
        found += [_orphan(uri, record) for record in labelled if not _is_needed(acceptors, record.ledger_id)]
    return found


async def delete_orphans(survey: Survey, orphans: Iterable[Orphan]) -> int:
    """Deletes those that nothing refers to even now; how many. Raises JournalUnavailable."""
    deleted = 0
    for orphan in orphans:
        if _is_needed(await survey.look_at_others(orphan.metadata_uri), orphan.ledger_id):
            continue
        try:
            await survey.clients[orphan.metadata_uri].delete_ledger(orphan.ledger_id)
        except NoSuchLedger:
            continue
        except LedgerError as error:
            raise JournalUnavailable(f"ledger {orphan.ledger_id} could not be deleted: {error}") from error
        deleted += 1
    return deleted


async def _labelled(survey: Survey, uri: str, age_seconds: float) -> list[LedgerRecord]:
    made_before_ms = survey.now_ms() - age_seconds * 1000
    label = survey.journal_id.encode()
    try:
        return [
            record
            async for record in survey.clients[uri].list_ledgers()
            if record.custom_metadata.get(JOURNAL_OF_LEDGER) == label and record.created_ms <= made_before_ms
        ]
    except LedgerError as error:
        raise JournalUnavailable(f"the ledgers could not be listed: {error}") from error


def _is_needed(acceptors: Iterable[AcceptorSeen], ledger_id: int) -> bool:
    return any(acceptor.needs(ledger_id) for acceptor in acceptors)


def _orphan(uri: str, record: LedgerRecord) -> Orphan:
    labels = record.custom_metadata
    return Orphan(
        record.ledger_id,
        uri,
        labels.get(ACCEPTOR_OF_LEDGER, b"?").decode(errors="replace"),
        labels.get(SEGMENT_OF_LEDGER, b"?").decode(errors="replace"),
        record.length_bytes,
    )
