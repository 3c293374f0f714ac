"""Making a ledger's record: bookies are chosen, an id is taken, and what protects the entries is settled."""

from __future__ import annotations

import time
from dataclasses import replace

from metadata.audit import Act, tell
from metadata.backup import hold
from metadata.errors import KeyExists
from metadata.records.ledger_record import Fragment, LedgerRecord
from metadata.records.ledger_store import VersionedRecord

from ..bookies.ensembles import choose_ensemble
from ..cluster import Cluster
from ..creating.new_ledger import NewLedger
from ..errors import LedgerExists
from ..integrity.encryption import ENCRYPTION, new_envelope
from ..integrity.ledger_keys import LedgerKey


async def create_record(
    cluster: Cluster, new: NewLedger, *, reserved: bool, encryption_key: bytes | None
) -> VersionedRecord:
    """A new record; with a key, that of a ledger whose entries are encrypted.

    Raises LedgerExists, NotEnoughBookies, ValueError for custom metadata that only we may write, MetadataError.
    """
    custom_metadata = dict(new.custom_metadata)
    if ENCRYPTION in custom_metadata:
        raise ValueError(f"custom metadata {ENCRYPTION!r} is of another ledger: leave it out")
    if encryption_key is not None:
        custom_metadata[ENCRYPTION] = new_envelope(encryption_key)
    await hold.check_accepted(cluster.store)  # a bookie may hold entries under the next id
    record = LedgerRecord(
        ledger_id=new.ledger_id or 0,
        shape=new.shape,
        fragments=(Fragment(0, await choose_ensemble(cluster, new.shape)),),
        digest_type=new.digest,
        custom_metadata=custom_metadata,
        created_ms=time.time_ns() // 1_000_000,
        reserved=reserved,
    )
    if new.ledger_id is not None:
        return await _with_id(cluster, record, new.password)
    while True:
        try:
            return await _with_id(cluster, replace(record, ledger_id=await cluster.ids.next()), new.password)
        except LedgerExists:
            continue  # somebody chose this id by hand: the counter has moved on, take the next


async def _with_id(cluster: Cluster, record: LedgerRecord, password: bytes) -> VersionedRecord:
    verifier = LedgerKey(record.ledger_id, password).verifier
    try:
        created = await cluster.ledgers.create(replace(record, verifier=verifier))
    except KeyExists:
        raise LedgerExists(record.ledger_id) from None
    tell(Act.CREATE, ledger_id=record.ledger_id)
    return created
