"""Deletes a set of logs: first the set, so that no client opens it, then its logs, then the records that refer to
it."""

from __future__ import annotations

from contextlib import suppress

from metadata import keys
from metadata.audit import Act, record_audit
from metadata.records.coordination import log_shares
from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore, log_name

from ...cluster import Cluster
from ...errors import LogHeld, NoSuchLog
from ...record_change import metadata_errors
from ..errors import NoSuchLogSet
from ..log_calls import LogCalls
from .set_state import LogSetState


async def delete_set(cluster: Cluster, calls: LogCalls, name: str, password: bytes) -> None:
    """Deletes a set with its logs, their cursors, and the shares of its groups. If the call is interrupted, repeat it.

    Raises NoSuchLogSet; raises LogHeld, Unauthorized and NotAllowed before anything is changed.
    """
    cluster.check_process()
    store = LogSetStore(cluster.store)
    with metadata_errors():
        found = await store.read(keys.check_name(name))
    if found is None:
        raise NoSuchLogSet(name)
    state = LogSetState(store, name, found, deleted_too=True)
    for log in _logs(name, state.record):
        await calls.check_may_delete(log, password, of=state.record.model.identity)
    await state.change(_given_up)
    given_up = state.found
    for log in _logs(name, given_up.record):
        await state.refresh()
        if state.found != given_up:  # another client has deleted the set, and a new one has been created
            raise NoSuchLogSet(name)
        with suppress(NoSuchLog):
            await calls.delete(log, password, of=given_up.record.model.identity)
    with metadata_errors():
        await log_shares.forget_all(cluster.store, name)
        await store.forget(name, given_up.version)
    record_audit(Act.DELETE, who=cluster.who, log_set=name)


def _given_up(record: LogSetRecord) -> LogSetRecord:
    if record.model.legal_hold:
        raise LogHeld(log_name(record.model.name, 0))
    return record.given_up()


def _logs(name: str, record: LogSetRecord) -> list[str]:
    return [log_name(name, n) for n in range(max(record.logs, record.growing_to))]
