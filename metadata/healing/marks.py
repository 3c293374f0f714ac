"""Marks of under-replicated ledgers, so that no worker has to read all records to find them.

The ledger's record is authoritative; a mark is only a hint. A worker that finds an obsolete mark removes it; the next
audit adds a missing one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace

from .. import keys, settled_writes
from ..errors import BadRecord, MetadataError
from ..records import records_pb2 as pb
from ..records.ledger_record import LedgerRecord
from ..records.record_decoding import parse_record, skip
from ..store import MetadataStore, list_all
from ..version import encode_record

log = logging.getLogger(__name__)

FORMAT_VERSION = 1

REASONS_MAX = 8
"""Maximum number of reasons in a mark; any others are omitted, because the ledger needs work in any case."""

TEXT_CHARACTERS_MAX = 500
"""Maximum length of a reason, and of the last failure."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark of a ledger. `since_ms`: when the under-replication was first found. `tries`: the number of failed attempts
    since then; `why_not`: why the last one failed."""

    ledger_id: int
    since_ms: int
    reasons: tuple[str, ...] = ()
    tries: int = 0
    why_not: str = ""


class Marks:
    """The marks of all under-replicated ledgers in a cluster. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, ledger_id: int) -> Mark | None:
        found = await self._store.get(keys.underreplicated(ledger_id))
        return None if found is None else _decode(found.key, found.value)

    async def list(self) -> AsyncIterator[Mark]:
        """Yields all marks that can be decoded, in order of ledger id."""
        async for item in list_all(self._store, keys.UNDERREPLICATED):
            try:
                mark = _decode(item.key, item.value)
            except BadRecord as error:
                skip(error)
            else:
                yield mark

    async def set(self, ledger_id: int, reasons: Iterable[str], now_ms: int) -> None:
        """Marks the ledger, or updates the reasons in its mark."""
        wanted = tuple(reason[:TEXT_CHARACTERS_MAX] for reason in reasons)[:REASONS_MAX]
        await self._change(ledger_id, lambda mark: replace(mark or Mark(ledger_id, now_ms), reasons=wanted))

    async def failed(self, ledger_id: int, why: str) -> None:
        """Counts a failed attempt. Does nothing for a ledger without a mark."""
        reason = why[:TEXT_CHARACTERS_MAX]
        await self._change(
            ledger_id, lambda mark: mark and replace(mark, tries=mark.tries + 1, why_not=reason)
        )

    async def remove(self, ledger_id: int) -> None:
        """Removes the mark of a ledger that needs no work. A mark that has just changed stays, and is checked again
        later."""
        found = await self._store.get(keys.underreplicated(ledger_id))
        if found is not None:
            await settled_writes.delete_unless_changed(self._store, found.key, found.version)

    async def _change(self, ledger_id: int, step: Callable[[Mark | None], Mark | None]) -> None:
        try:
            await settled_writes.change(self._store, keys.underreplicated(ledger_id), step, _decode, _encode)
        except BadRecord as error:  # a newer program wrote the mark, which stays unchanged
            skip(error)


def _encode(mark: Mark) -> bytes:
    return encode_record(
        pb.UnderReplicated(
            format_version=FORMAT_VERSION,
            since_ms=mark.since_ms,
            reasons=mark.reasons,
            tries=mark.tries,
            why_not=mark.why_not,
            nonce=settled_writes.new_nonce(),
        )
    )


def _decode(key: str, value: bytes) -> Mark:
    message = parse_record(pb.UnderReplicated, key, value, FORMAT_VERSION, "mark")
    return Mark(
        keys.ledger_id_of(key), message.since_ms, tuple(message.reasons), message.tries, message.why_not
    )


async def mark_if_underreplicated(marks: Marks, record: LedgerRecord) -> None:
    """Marks a ledger as under-replicated if its record states that copies lack entries (rule W6), or that a bookie must
    fence it.

    If the mark cannot be written, no harm is done: the next audit finds the record.
    """
    reasons = [
        f"{fragment.ensemble[lack.position]} lacks {lack}"
        for fragment in record.fragments
        for lack in fragment.lacking
    ]
    if record.accepted_loss is not None:
        reasons += [f"{bookie} is to fence it" for bookie in record.accepted_loss.to_fence]
    if reasons:
        try:
            await marks.set(record.ledger_id, reasons, time.time_ns() // 1_000_000)
        except MetadataError as error:
            log.info(
                "ledger %d could not be marked for healing: %s",
                record.ledger_id,
                error,
                extra={"ledger": record.ledger_id},
            )
