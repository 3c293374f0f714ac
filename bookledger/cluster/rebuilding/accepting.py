"""Brings logs, sets and journals up to their ledgers when older metadata is accepted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable

from metadata import keys
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.store import MetadataStore

from .acceptors_behind import acceptor_behind
from .behind import Behind
from .journals import acceptor_of
from .logs import forks_of
from .logs_behind import forks_behind, log_behind, set_behind


async def behind(store: MetadataStore, noted: Iterable[LedgerRecord] = ()) -> AsyncIterator[Behind]:
    """Yields all logs, sets and journals that are behind, according to the ledgers in the store and those that bookies
    have noted better; sets come after their logs. Call it while the metadata is held back, because active writers
    create ledgers that no record names yet. Raises MetadataError."""
    of_logs: dict[bytes, list[LedgerRecord]] = defaultdict(list)
    of_acceptors: dict[tuple[str, str], list[LedgerRecord]] = defaultdict(list)
    of_sets: dict[bytes, list[LogRecord]] = defaultdict(list)
    better = {one.ledger_id: one for one in noted}

    def note(one: LedgerRecord) -> None:
        if (said := segment_of(one.custom_metadata)) is not None:
            of_logs[said.identity].append(one)
        elif (acceptor := acceptor_of(one)) is not None and all(map(keys.is_name, acceptor)):
            of_acceptors[acceptor].append(one)

    async for listed in LedgerStore(store).list():
        note(better.pop(listed.record.ledger_id, listed.record))
    for one in better.values():
        note(one)
    logs, forked = LogStore(store), []
    for identity in sorted(of_logs):
        record, log = await log_behind(logs, identity, of_logs)
        if record.makers and not record.deleted:
            forked.append(record)
        if record.member is not None and not record.deleted:
            of_sets[record.member.log_set].append(record)
        if log is not None:
            yield log
    for identity, forks in sorted(forks_of(forked).items()):
        if (named := await forks_behind(logs, identity, forks)) is not None:
            yield named
    for _, members in sorted(of_sets.items()):
        if (log_set := await set_behind(store, members)) is not None:
            yield log_set
    for acceptor, ledgers in sorted(of_acceptors.items()):
        if (one_behind := await acceptor_behind(store, acceptor, ledgers)) is not None:
            yield one_behind
