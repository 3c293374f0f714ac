"""Creates a ledger's record: chooses bookies, allocates an id, sets up password and encryption."""

from __future__ import annotations

import asyncio
import logging
import time

from metadata.audit import Act, record_audit
from metadata.backup import hold
from metadata.errors import KeyExists
from metadata.records.ledger_ids import retired_end
from metadata.records.ledger_record import (
    IDENTITY_BYTES,
    OWNER,
    Fragment,
    LedgerRecord,
    Shape,
    is_of,
)
from metadata.records.ledger_store import VersionedRecord

from ..bookies.ensembles import first_fragment
from ..cluster import Cluster
from ..creating.new_ledger import NewLedger
from ..errors import LedgerExists, NotAllowed, NotEnoughBookies
from ..integrity.encryption import ENCRYPTION, new_envelope
from ..integrity.ledger_keys import LedgerKey
from ..integrity.stretching import salt_of_this_process

log = logging.getLogger(__name__)


async def create_record(
    cluster: Cluster, new: NewLedger, *, reserved: bool, encryption_key: bytes | None
) -> VersionedRecord:
    """Creates the record of a ledger that belongs to the client's owner, and that is encrypted if there is a key.

    Raises NotAllowed for a role that may not write, LedgerExists, NotEnoughBookies, ValueError for reserved custom
    metadata, and MetadataError, or its subclass MetadataRestored if the store is a restored backup that has not been
    accepted.
    """
    if why := cluster.why_not_created():
        record_audit(Act.REFUSED, f"create: {why}", who=cluster.who)
        raise NotAllowed(why)
    custom_metadata = _custom_metadata(cluster, new, encryption_key)
    shape, first = new.shape, await _ensemble(cluster, new.shape)
    salt = salt_of_this_process() if new.password else b""
    secret = await cluster.stretching.secret_of(salt, new.password)
    while True:
        ledger_id = await cluster.ids.next() if new.ledger_id is None else new.ledger_id
        record = LedgerRecord(
            ledger_id=ledger_id,
            shape=shape,
            fragments=(first,),
            digest_type=new.digest,
            custom_metadata=custom_metadata,
            created_ms=time.time_ns() // 1_000_000,
            reserved=reserved,
            verifier=LedgerKey(ledger_id, secret).verifier,
            password_salt=salt,
            identity=cluster.rng.randbytes(IDENTITY_BYTES),
        )
        try:
            return await _created(cluster, record, is_chosen=new.ledger_id is not None)
        except LedgerExists:
            if new.ledger_id is not None:
                raise
            # Another client chose this id explicitly. The counter has moved on, so take the next id.


def _custom_metadata(cluster: Cluster, new: NewLedger, encryption_key: bytes | None) -> dict[str, bytes]:
    """Returns the application's custom metadata, with the additions for owners and encryption. Raises ValueError for
    reserved names."""
    custom_metadata = dict(new.custom_metadata)
    if ENCRYPTION in custom_metadata:
        raise ValueError(f"custom metadata {ENCRYPTION!r} belongs to another ledger: leave it out")
    if cluster.owner:
        custom_metadata.setdefault(OWNER, cluster.owner.encode())
    if cluster.owner and not is_of(custom_metadata[OWNER], cluster.owner):
        raise ValueError(f"custom metadata {OWNER!r} names an owner that {cluster.identity} may not use")
    if encryption_key is not None:
        custom_metadata[ENCRYPTION] = new_envelope(encryption_key)
    return custom_metadata


async def _ensemble(cluster: Cluster, shape: Shape) -> Fragment:
    """Chooses bookies. Raises MetadataRestored if some are missing because they have not registered again since the
    store went back to an older copy."""
    try:
        chosen = await first_fragment(cluster, shape)
    except NotEnoughBookies:
        await hold.check_accepted(cluster.store)
        raise
    if chosen.lacking:
        await hold.check_accepted(cluster.store)
    return chosen


async def _created(cluster: Cluster, record: LedgerRecord, *, is_chosen: bool) -> VersionedRecord:
    try:
        created = await cluster.ledgers.create(record)
    except KeyExists:
        raise LedgerExists(record.ledger_id) from None
    if is_chosen and record.ledger_id < await retired_end(cluster.store):
        # Checked after the creation, because a tombstone is deleted only after the end of the retired ids has been
        # raised. The new ledger is not yet in use, so it can be deleted.
        await cluster.ledgers.delete(created)
        raise LedgerExists(record.ledger_id)
    record_audit(Act.CREATE, who=cluster.who, ledger_id=record.ledger_id)
    if record.fragments[0].lacking:
        _warn_of_absent(cluster, record)
    return created


def _warn_of_absent(cluster: Cluster, record: LedgerRecord) -> None:
    """Logs a warning, at most once per BEGUN_WITHOUT_SECONDS_MIN: while a bookie is away, every new ledger may lack
    it."""
    suppressed = cluster.begun_without.admit(asyncio.get_running_loop().time())
    if suppressed is None:
        return
    first = record.fragments[0]
    log.warning(
        "ledger %d begins without %s, which does not answer or currently accepts no entries%s",
        record.ledger_id,
        " and ".join(f"bookie {first.ensemble[lack.position]}" for lack in first.lacking),
        f" ({suppressed} more ledgers before it were not logged)" if suppressed else "",
        extra={"ledger": record.ledger_id},
    )
