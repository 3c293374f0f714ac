"""Access to logs: determines who may change a log, based on the role and owner in the client's certificate, and on the
password of the log's segments."""

from __future__ import annotations

from bookie.wire.trust.roles import Right
from metadata.audit import Act, record_audit
from metadata.records.ledger_store import VersionedRecord
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_set_record import LogSetStore

from ..cluster import Cluster
from ..errors import NotAllowed, Unauthorized
from ..ledger_access import keys_of
from ..record_change import metadata_errors
from .errors import LogOfSet
from .log_segment_ledgers import missing_ledger_error


def check_may_change(cluster: Cluster) -> None:
    """Raises NotAllowed if the client's role may not write."""
    if why := cluster.why_not_created():
        raise NotAllowed(why)


async def check_no_member(cluster: Cluster, log: LogRecord, instead: str) -> None:
    """Raises LogOfSet for a log of an existing set: the logs of a set can be changed only together, through the set."""
    if log.log_set is None:
        return
    with metadata_errors():
        found = await LogSetStore(cluster.store).read(log.log_set)
    if found is not None and log.is_of(found.record.model.identity):
        raise LogOfSet(log.name, log.log_set, instead)


async def check_may_write(cluster: Cluster, log: LogRecord, password: bytes) -> None:
    """Raises Unauthorized or NotAllowed if the client may not write. Called before the current writer is fenced, so
    that a refused client does not disturb that writer."""
    check_may_change(cluster)
    found = await _last_ledger(cluster, log)
    if found is not None:
        await keys_of(cluster, found, password, Right.FENCE, Right.APPEND)
    elif log.last is not None:
        raise missing_ledger_error(log, log.last)


async def check_may_give_up(cluster: Cluster, log: LogRecord, password: bytes) -> None:
    """Raises Unauthorized or NotAllowed if the client would not be allowed to delete the log's last ledger."""
    check_may_change(cluster)
    found = await _last_ledger(cluster, log)
    if found is None:
        return
    try:
        await keys_of(cluster, found, password)
        if why := cluster.why_not_deleted(found.record, is_proven=bool(password)):
            raise Unauthorized(found.record.ledger_id, why=why)
    except Unauthorized as error:
        record_audit(Act.REFUSED, f"give up: {error}", who=cluster.who, log=log.name)
        raise


async def _last_ledger(cluster: Cluster, log: LogRecord) -> VersionedRecord | None:
    if log.last is None:
        return None
    with metadata_errors():
        return await cluster.ledgers.read(log.last.ledger_id)
