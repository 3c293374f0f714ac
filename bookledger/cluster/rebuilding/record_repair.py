"""Brings logs, sets and journals up to date with their ledgers when older metadata is accepted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace

from metadata import keys
from metadata.errors import StoreUnavailable
from metadata.records.journal_record import JournalState
from metadata.records.journal_store import JournalStore, VersionedState
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.store import MetadataStore

from .journals import RebuiltAcceptor, acceptor_of, rebuilt_acceptor
from .logs import forks_of
from .stale_logs import find_stale_log, find_stale_set, find_unnamed_forks
from .stale_record import StaleRecord


async def find_stale_acceptor(
    store: MetadataStore, acceptor: tuple[str, str], ledgers: Sequence[LedgerRecord]
) -> StaleRecord | None:
    """Returns what is missing from the state of the acceptor to which these ledgers belong; None if the state includes
    the last of these ledgers. Raises MetadataError."""
    records = JournalStore(store, *acceptor)
    standing = await records.read_state()
    rebuilt = rebuilt_acceptor(ledgers, None if standing is None else standing.state)
    last = None if rebuilt is None else rebuilt.last
    if rebuilt is None or last is None or await _has(records, standing, last.start_txid, last.ledger_id):
        return None
    journal_id, name = acceptor
    return StaleRecord(
        f"acceptor {name} of journal {journal_id}",
        f"segments up to the one from txid {last.start_txid}, ledger {last.ledger_id}",
        rebuilt.doubts,
        lambda: _put(records, standing, rebuilt),
    )


async def _has(
    records: JournalStore, standing: VersionedState | None, start_txid: int, ledger_id: int
) -> bool:
    """Returns whether the state includes this ledger, or the ledger of a later segment."""
    if standing is None:
        return False
    state = standing.state
    named = [(one.start_txid, one.ledger_id) for one in state.segments]
    if (found := await records.read_segment(state.last_finalized_start)) is not None:
        named.append((found.segment.start_txid, found.segment.ledger_id))
    return ledger_id in state.replaced_ledgers or max(named, default=(0, 0)) >= (start_txid, ledger_id)


async def _put(records: JournalStore, standing: VersionedState | None, rebuilt: RebuiltAcceptor) -> None:
    """Writes the finalized segments first, and then the state that refers to them, so that the repair is safe to
    repeat."""
    for one in rebuilt.finalized:
        found = await records.read_segment(one.start_txid)
        if found is None or found.segment.ledger_id != one.ledger_id:
            await records.put_segment(one, None if found is None else found.version)
    state = rebuilt.state if standing is None else _merged(standing.state, rebuilt.state)
    if await records.swap_state(state, None if standing is None else standing.version) is None:
        raise StoreUnavailable("another process has just changed a journal: run the command again")


def _merged(known: JournalState, later: JournalState) -> JournalState:
    """Merges the states: no promise is withdrawn, and purged or dropped segments are not restored."""
    if known.storage != later.storage:  # the journal was reformatted after `known` was written
        return replace(later, last_promised_epoch=max(known.latest_epoch + 1, later.last_promised_epoch))
    in_progress = {one.start_txid for one in later.segments}
    return replace(
        known,
        last_promised_epoch=max(known.latest_epoch + 1, later.last_promised_epoch),
        last_writer_epoch=max(known.last_writer_epoch, later.last_writer_epoch),
        segments=later.segments,
        accepted=tuple(one for one in known.accepted if one.start_txid in in_progress),
        last_finalized_start=max(known.last_finalized_start, later.last_finalized_start),
        purged_below=max(known.purged_below, later.purged_below),
        generation=max(known.generation, later.generation),
        owner=b"",
        joined_behind=later.joined_behind,
    )


async def find_stale_records(
    store: MetadataStore, noted: Iterable[LedgerRecord] = ()
) -> AsyncIterator[StaleRecord]:
    """Yields all logs, sets and journals whose records are out of date, according to the ledgers in the store and to
    newer notes of bookies; sets come after their logs. Call it while the metadata is on hold, because active writers
    create ledgers to which no record refers yet. Raises MetadataError."""
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
        record, log = await find_stale_log(logs, identity, of_logs)
        if record.makers and not record.deleted:
            forked.append(record)
        if record.member is not None and not record.deleted:
            of_sets[record.member.log_set].append(record)
        if log is not None:
            yield log
    for identity, forks in sorted(forks_of(forked).items()):
        if (named := await find_unnamed_forks(logs, identity, forks)) is not None:
            yield named
    for _, members in sorted(of_sets.items()):
        if (log_set := await find_stale_set(store, members)) is not None:
            yield log_set
    for acceptor, ledgers in sorted(of_acceptors.items()):
        if (stale := await find_stale_acceptor(store, acceptor, ledgers)) is not None:
            yield stale
