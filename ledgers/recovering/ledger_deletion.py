"""Deletes a ledger: checks permissions, and first recovers the ledger if it is open."""

from __future__ import annotations

from functools import partial

from bookie.wire.trust.roles import Right
from metadata.audit import Act, record_audit
from metadata.records.ledger_store import VersionedRecord
from metadata.settled_writes import until_changed

from ..cluster import Cluster
from ..errors import Unauthorized
from ..ledger_access import audit_refusals, found_of, keys_of
from .recovery_run import recover


async def delete(
    cluster: Cluster,
    ledger_id: int,
    password: bytes,
    *,
    as_it_is: bool = False,
    password_is_lost: bool = False,
) -> None:
    """Deletes the ledger permanently. If it is open, recovers it first, unless `as_it_is` or `password_is_lost`.

    Raises NoSuchLedger, Unauthorized, LedgerRecoveryFailed, or LedgerError if the record keeps changing.
    """
    by = "password is lost" if password_is_lost else "force" if as_it_is else None

    async def attempt(found: VersionedRecord) -> None:
        if password_is_lost:
            with audit_refusals(cluster, ledger_id, "delete"):
                if why := cluster.why_not(found.record, Right.OVERRIDE):
                    raise Unauthorized(ledger_id, why=why)
        else:
            found = await _ready(cluster, found, password, as_it_is=as_it_is)
        await cluster.ledgers.delete(found)

    read = partial(found_of, cluster, ledger_id)
    await until_changed(f"ledger {ledger_id}", await read(), attempt, read)
    record_audit(Act.DELETE, who=cluster.who, ledger_id=ledger_id, by=by)


async def _ready(
    cluster: Cluster, found: VersionedRecord, password: bytes, *, as_it_is: bool
) -> VersionedRecord:
    """Returns the record to delete, after recovery unless `as_it_is`. Raises Unauthorized, LedgerRecoveryFailed."""
    record = found.record
    must_recover = not record.is_closed and not as_it_is
    rights = (Right.FENCE,) if must_recover else ()
    # A caller that deletes by force may give a password even for an old ledger that has none.
    shown = b"" if as_it_is and not record.verifier else password
    with audit_refusals(cluster, record.ledger_id, "delete"):
        keys = await keys_of(cluster, found, shown, *rights)
        if why := cluster.why_not_deleted(record, is_proven=bool(shown)):
            raise Unauthorized(record.ledger_id, why=why)
    return await recover(cluster, found, *keys) if must_recover else found
