"""Marks of under-replicated ledgers, so that no worker has to read all records to find them.

The ledger's record is the truth; a mark is only a hint. Whoever finds one obsolete removes it; the next audit makes
a missing one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace

from .. import keys, settled_writes
from ..errors import BadRecord, KeyExists, MetadataError, NoSuchKey, VersionConflict
from ..records import records_pb2 as pb
from ..records.ledger_record import LedgerRecord
from ..records.unreadable import parsed, skip
from ..store import MetadataStore, Versioned, list_all

log = logging.getLogger(__name__)

FORMAT_VERSION = 1

REASONS_MAX = 8
"""Reasons that a mark lists; a ledger with more of them needs work anyway."""

TEXT_CHARACTERS_MAX = 500
"""Length of a reason, and of the last failure."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark of a ledger. `since_ms`: when it was first found. `tries` have failed since, the last for `why_not`."""

    ledger_id: int
    since_ms: int
    reasons: tuple[str, ...] = ()
    tries: int = 0
    why_not: str = ""


class Marks:
    """The marks of a cluster. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, ledger_id: int) -> Mark | None:
        found = await self._store.get(keys.underreplicated(ledger_id))
        return None if found is None else _decode(found)

    async def list(self) -> AsyncIterator[Mark]:
        """All that can be decoded, by ledger."""
        async for item in list_all(self._store, keys.UNDERREPLICATED):
            try:
                mark = _decode(item)
            except BadRecord as error:
                skip(error)
            else:
                yield mark

    async def set(self, ledger_id: int, reasons: Iterable[str], now_ms: int) -> None:
        """Marks the ledger, or updates why it is marked."""
        wanted = tuple(reason[:TEXT_CHARACTERS_MAX] for reason in reasons)[:REASONS_MAX]
        await self._change(
            ledger_id, lambda mark: replace(mark, reasons=wanted), Mark(ledger_id, now_ms, wanted)
        )

    async def failed(self, ledger_id: int, why: str) -> None:
        """Counts a failed try. A ledger without a mark stays without."""
        told = why[:TEXT_CHARACTERS_MAX]
        await self._change(ledger_id, lambda mark: replace(mark, tries=mark.tries + 1, why_not=told), None)

    async def remove(self, ledger_id: int) -> None:
        """Removes the mark: the ledger needs nothing."""
        key = keys.underreplicated(ledger_id)
        found = await self._store.get(key)
        if found is not None:
            try:
                await self._store.delete(key, found.version)
            except (
                NoSuchKey,
                VersionConflict,
            ):  # another client has just changed it: check again later
                pass

    async def _change(self, ledger_id: int, change: Callable[[Mark], Mark], new: Mark | None) -> None:
        """Tries once: a client that was faster knows as much as we do."""
        key = keys.underreplicated(ledger_id)
        found = await self._store.get(key)
        try:
            if found is None:
                if new is not None:
                    await settled_writes.create(self._store, key, _encode(new))
                return
            before = _decode(found)
            if (after := change(before)) != before:
                await settled_writes.replace(self._store, key, _encode(after), found.version)
        except (KeyExists, NoSuchKey, VersionConflict):
            pass
        except BadRecord as error:  # a newer program's record: the ledger stays marked as it is
            skip(error)


def _encode(mark: Mark) -> bytes:
    return pb.UnderReplicated(
        format_version=FORMAT_VERSION,
        since_ms=mark.since_ms,
        reasons=mark.reasons,
        tries=mark.tries,
        why_not=mark.why_not,
        nonce=settled_writes.new_nonce(),
    ).SerializeToString()


def _decode(item: Versioned) -> Mark:
    message = parsed(pb.UnderReplicated, item.key, item.value, FORMAT_VERSION, "mark")
    ledger_id = keys.ledger_id_of(item.key)
    return Mark(ledger_id, message.since_ms, tuple(message.reasons), message.tries, message.why_not)


async def tell_lacking(marks: Marks, record: LedgerRecord) -> None:
    """Marks a ledger under-replicated if its record says that copies lack something (rule W6), or that a bookie is to
    fence it.

    A failed mark is no loss: the next audit finds the record.
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
