"""Closes a ledger whose end can no longer be proven. By explicit order of an operator, it is closed where the entries
on its surviving bookies end.

1. `assess` only reads: it fences nothing, changes nothing, and reports what would be lost. It refuses if a recovery
   would succeed, or if a bookie is live that could still prove the end, because then no entry need be lost.
2. `accept_loss` marks the ledger IN_RECOVERY (rule R2), fences the bookies that answer, walks again, and closes by one
   compare-and-swap. It refuses if more would be lost than was reported.

The record permanently names the operator who gave the order, and the bookies of the last ensemble that did not answer.
A bookie that comes back fences the ledger (`healing/replication_worker`), so that the ledger's old writer gets no ack
quorum from the bookies that were away. The bookie's entries after the end are not part of the ledger: the record states
the end, as for every closed ledger. Nothing is written back, because there may be no bookie to write to. The record
states that every copy of the last fragment may lack entries, and healing completes the copies.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from dataclasses import dataclass, replace

from bookie.wire.trust.roles import Right
from metadata.audit import Act, record_audit
from metadata.healing.marks import mark_if_underreplicated
from metadata.healing.presence import Presence, Whereabouts, whereabouts
from metadata.records.ledger_record import AcceptedLoss, BookieRef, LedgerRecord
from metadata.records.ledger_store import VersionedRecord

from ..cluster import Cluster
from ..errors import LedgerClosed, LedgerError, LedgerRecoveryFailed
from ..ledger_access import Keys, audit_refusals, found_of, keys_of
from ..protocol.shortfall import in_doubt
from ..record_change import change_record, unwrap_outcome
from .accepted_metadata import check_accepted
from .recovery_run import mark_in_recovery
from .survivors import Survivors

BY_CHARACTERS_MAX = 200
"""Maximum length of the operator's name in the record."""


@dataclass(frozen=True, slots=True)
class LossAssessment:
    """What accepting the loss of a ledger's missing bookies would mean.

    `proven_through`: the last entry that is proven to be confirmed. `last_entry`: the entry at which the ledger would
    end. `missing`: the bookies of the last ensemble that do not answer, and whether each is lost or only away.
    `unreadable`: number of entries up to `last_entry` whose only copies are on missing bookies; they remain in the
    ledger, and can be read once one of these bookies is back. `behind`: the bookies' answers about the first entry that
    is neither proven nor present.
    """

    ledger_id: int
    proven_through: int
    last_entry: int
    missing: tuple[Whereabouts, ...]
    unreadable: int = 0
    behind: str = ""

    @property
    def confirmed_and_lost(self) -> int:
        """Number of entries at the end that are proven to be confirmed but that no surviving bookie has."""
        return max(0, self.proven_through - self.last_entry)


async def assess(cluster: Cluster, ledger_id: int, password: bytes) -> LossAssessment:
    """Assesses the loss; fences nothing and changes nothing. Raises LedgerClosed for a closed ledger, NoSuchLedger,
    Unauthorized, LedgerError if no loss need be accepted, and LedgerRecoveryFailed while the metadata is an older copy.
    """
    found, keys = await _opened(cluster, ledger_id, password)
    if found.record.is_closed:
        raise LedgerClosed(ledger_id, "its end is final, so there is no loss to accept")
    await check_accepted(cluster, ledger_id)
    end = Survivors(cluster, found.record, keys, fence=False)
    await end.find_end()
    return await _assessed(cluster, end)


async def accept_loss(cluster: Cluster, assessment: LossAssessment, password: bytes) -> LedgerRecord:
    """Closes the ledger where its survivors' entries end. Returns the closed record, even if another client has closed
    the ledger in the meantime.

    Raises as `assess` does, and LedgerRecoveryFailed if more would now be lost than `assessment` states.
    """
    found, keys = await _opened(cluster, assessment.ledger_id, password)
    marked = await mark_in_recovery(cluster, found)
    if marked.record.is_closed:
        return marked.record
    end = Survivors(cluster, marked.record, keys, fence=True)
    await end.find_end()
    await check_accepted(cluster, assessment.ledger_id)  # by now the fenced bookies have checked the metadata
    _check_no_more_is_lost(assessment, await _assessed(cluster, end))
    return await _close(cluster, marked, end)


async def _opened(cluster: Cluster, ledger_id: int, password: bytes) -> tuple[VersionedRecord, Keys]:
    found = await found_of(cluster, ledger_id)
    with audit_refusals(cluster, ledger_id, "accept loss"):
        return found, await keys_of(cluster, found, password, Right.FENCE, Right.ACCEPT_LOSS)


# --- refusals --------------------------------------------------------------------------------


async def _assessed(cluster: Cluster, end: Survivors) -> LossAssessment:
    """Returns the assessment. Raises LedgerError if no loss need be accepted: the end can be proven, or a live bookie
    may still prove it, and the ledger's writer may continue with that bookie."""
    ledger_id = end.record.ledger_id
    if end.is_provable:
        raise LedgerError(
            f"no loss of ledger {ledger_id} need be accepted: enough of its bookies answer to prove its end; use "
            f"`bookledger ledger recover {ledger_id}`"
        )

    missing = [await _where(cluster, bookie, end) for bookie in sorted(end.missing)]
    living = [one.bookie for one in missing if one.presence is Presence.LIVING]
    if living:
        said = "; ".join(f"{bookie}: {end.missing[bookie]}" for bookie in living)
        raise LedgerError(
            f"no loss of ledger {ledger_id} is accepted while registered bookies do not answer ({said}): they "
            "may be able to prove its end. Find out why they do not answer, or stop them"
        )
    return LossAssessment(
        ledger_id, end.proven_through, end.last_entry, tuple(missing), end.unreadable, end.behind
    )


async def _where(cluster: Cluster, bookie: BookieRef, end: Survivors) -> Whereabouts:
    if bookie in end.gone:
        return Whereabouts(bookie, Presence.LOST, end.missing[bookie])
    return await whereabouts(cluster.store, bookie)


def _check_no_more_is_lost(assessment: LossAssessment, now: LossAssessment) -> None:
    before = {one.bookie for one in assessment.missing}
    if gone := [str(one.bookie) for one in now.missing if one.bookie not in before]:
        why = f"no answer now from {', '.join(gone)}"
    elif now.last_entry < assessment.last_entry:
        why = f"the survivors now end at entry {now.last_entry}"
    elif now.confirmed_and_lost > assessment.confirmed_and_lost:
        why = f"entry {now.proven_through} is now proven, and the survivors end at entry {now.last_entry}"
    else:
        return
    raise LedgerRecoveryFailed(
        assessment.ledger_id, f"more would be lost than was reported ({why}); assess the ledger again"
    )


# --- closing -----------------------------------------------------------------------------------


async def _close(cluster: Cluster, marked: VersionedRecord, end: Survivors) -> LedgerRecord:
    missing = tuple(end.missing)
    to_fence = tuple(bookie for bookie in missing if bookie not in end.gone)
    loss = AcceptedLoss(time.time_ns() // 1_000_000, _who(cluster), end.proven_through, missing, to_fence)
    closed = marked.record.closed(end.last_entry, end.length_bytes)
    first = marked.record.fragments[-1].first_entry
    record = replace(in_doubt(closed, first, end.last_entry), accepted_loss=loss)
    outcome = await change_record(cluster.ledgers, record, marked.version, unless_held=True)
    found, is_mine = unwrap_outcome(outcome, record.ledger_id)
    if is_mine:
        _audit_loss(cluster, found.record, loss)
        await mark_if_underreplicated(cluster.marks, found.record)
    elif not found.record.is_closed:
        raise LedgerRecoveryFailed(
            record.ledger_id, "other clients kept changing its metadata; assess the ledger again"
        )
    return found.record


def _audit_loss(cluster: Cluster, record: LedgerRecord, loss: AcceptedLoss) -> None:
    record_audit(
        Act.ACCEPT_LOSS,
        who=cluster.who or loss.by,
        ledger_id=record.ledger_id,
        last_entry=record.last_entry,
        proven_through=loss.proven_through,
        given_up=", ".join(sorted(map(str, loss.missing))),
    )


def _who(cluster: Cluster) -> str:
    """Returns the identity in the certificate; without a certificate, the user and host of this program."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user has no name on this host
        user = str(os.getuid())
    return (cluster.who or f"{user}@{socket.gethostname()}")[:BY_CHARACTERS_MAX]
