"""Authorizes access to a ledger: finds its record, checks the password and the rights, and derives its keys."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import contextmanager

from bookie.wire.trust.roles import Right
from metadata.audit import Act, record_audit
from metadata.records.ledger_store import VersionedRecord

from .cluster import Cluster
from .entry import check_int
from .errors import NoSuchLedger, Unauthorized
from .integrity.digest import Digester, digester
from .integrity.ledger_keys import LedgerKey
from .record_change import missing_record_error

Keys = tuple[Digester, LedgerKey]

NO_PASSWORD = "it has a password, and none was given: pass `password`, or --password-file to a command"


async def keys_of(cluster: Cluster, found: VersionedRecord, password: bytes, *rights: Right) -> Keys:
    """Derives the ledger's digester and key from its password, before anything is changed. Raises Unauthorized for a
    wrong password, or if bookies would deny the client's certificate one of these rights."""
    record = found.record
    if why := cluster.why_not(record, *rights):
        raise Unauthorized(record.ledger_id, why=why)
    if record.verifier and not password:
        raise Unauthorized(record.ledger_id, why=NO_PASSWORD)
    if password and not record.verifier:
        raise Unauthorized(record.ledger_id, why="it has no password, but one was given")
    secret = await cluster.stretching.secret_of(record.password_salt, password)
    key = LedgerKey(record.ledger_id, secret)
    if not hmac.compare_digest(key.verifier, record.verifier):
        raise Unauthorized(record.ledger_id)
    return digester(record.digest_type, record.ledger_id, secret), key


@contextmanager
def audit_refusals(cluster: Cluster, ledger_id: int, what: str) -> Iterator[None]:
    """Writes an audit event about the operation `what` if the block raises Unauthorized."""
    try:
        yield
    except Unauthorized as error:
        record_audit(Act.REFUSED, f"{what}: {error}", who=cluster.who, ledger_id=ledger_id)
        raise


async def found_of(cluster: Cluster, ledger_id: int) -> VersionedRecord:
    check_int("a ledger id", ledger_id)
    if not 0 <= ledger_id < 2**63:
        raise NoSuchLedger(ledger_id)
    found = await cluster.ledgers.read(ledger_id)
    if found is None:
        raise await missing_record_error(cluster.ledgers, ledger_id)
    return found
