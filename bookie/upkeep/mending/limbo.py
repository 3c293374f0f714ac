"""Puts ledgers into limbo on a bookie that lost an unknown part of its log and can vouch for none of them (rule R6).

Before the bookie serves, it puts every ledger that the metadata places on it into limbo, on disk: absent entries are
then UNKNOWN, never "no such entry". It also fences each of these ledgers, because the lost part may have contained
their fences. This includes closed ledgers; otherwise their old writers could still find an ack quorum past the end.
`repair.py` takes ledgers out of limbo again, but the fences remain.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from metadata.errors import BadRecord
from metadata.keys import ledger_id_of
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.record_decoding import skip

from ...index.local_ledger_state import Fence
from ...log.format import BookieLogRecord
from ...storage.bookie import Bookie
from ...storage.core import state_record

log = logging.getLogger(__name__)

LEDGERS_PER_BATCH = 1000
"""Maximum number of ledgers with readable records whose states are synced in one batch."""


async def enter_limbo(bookie: Bookie, ledgers: LedgerStore, me: BookieRef) -> int:
    """Puts every ledger that the metadata places here into limbo; returns the number of ledgers. The change is durable
    when it returns.

    Includes ledgers whose records cannot be decoded, because they may be placed here. Raises MetadataError if the
    listing fails; in that case the bookie must not serve.
    """
    count, batch, unknown = 0, list[BookieLogRecord](), list[BadRecord]()
    async for found in ledgers.list(on_unreadable=unknown.append):
        if _names(found.record, me):
            batch.append(_in_limbo(bookie, found.record))
            count += 1
        if len(batch) == LEDGERS_PER_BATCH:
            await bookie.store(batch)
            batch = []
    await bookie.store(batch)
    await bookie.store(_doubtful(bookie, unknown))
    await bookie.leave_loss_behind()
    log.warning(
        "part of the log was lost: %d ledgers are in limbo until they are repaired; run: bookledger bookie repair %s",
        count,
        me,
    )
    return count


def _names(record: LedgerRecord, me: BookieRef) -> bool:
    return any(me in fragment.ensemble for fragment in record.fragments)


def _doubtful(bookie: Bookie, unknown: list[BadRecord]) -> list[BookieLogRecord]:
    """Returns states for ledgers with an unreadable record; their verifiers and identities remain unknown, and are
    looked up on demand."""
    records = []
    for error in unknown:
        skip(error)
        with suppress(BadRecord):  # a stray key does not belong to any ledger
            state = bookie.states.hold(ledger_id_of(error.key))
            state.fence, state.limbo = Fence.DURABLE, True
            records.append(state_record(state))
    return records


def _in_limbo(bookie: Bookie, record: LedgerRecord) -> BookieLogRecord:
    state = bookie.states.hold(record.ledger_id)
    state.fence = Fence.DURABLE  # the bookie serves no requests until the fence is durable
    state.limbo = True
    state.learn(record.verifier, record.identity)
    return state_record(state)
