"""Updates the records of logs and sets from their ledgers, because metadata that has returned to an older state lacks
the later ledgers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from metadata import keys, settled_writes
from metadata.records.coordination import election_record
from metadata.records.coordination.election_record import TermRecord
from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.log_record import OBSOLETE_MAX, LogRecord
from metadata.records.logs.log_set_record import LogSetStore, made_again
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.shared_ledgers import Fork
from metadata.store import MetadataStore

from .logs import EPOCHS_LEFT, RebuiltLog, rebuilt_log
from .stale_record import StaleRecord


async def find_stale_log(
    logs: LogStore, identity: bytes, of_logs: Mapping[bytes, Sequence[LedgerRecord]]
) -> tuple[LogRecord, StaleRecord | None]:
    """Returns the log with this identity as it should be, and the difference from its record, if there is one.
    `of_logs`: the ledgers of each log. Raises MetadataError."""
    standing, ledgers = await logs.read(identity), of_logs[identity]
    known = None if standing is None else standing.record
    later = [one for one in ledgers if known is None or _is_later(one, known)]
    if known is not None and (known.deleted or not later):
        return known, None
    chain = set() if known is None else {segment.ledger_id for segment in known.segments}
    paged_us = known.paged_us if known is not None and known.segments else 0
    others = of_logs
    if known is not None:  # shared segments are in the log's chain
        of_makers = {one.identity: of_logs.get(one.identity, ()) for one in known.makers}
        others = {maker: [one for one in held if one.ledger_id in chain] for maker, held in of_makers.items()}
    rebuilt = rebuilt_log([*later, *(one for one in ledgers if one.ledger_id in chain)], paged_us, others)
    named = {one.ledger_id for page in (*rebuilt.pages, rebuilt.record.segments) for one in page}
    if known is not None and chain >= named:
        return known, None
    record = rebuilt.record if known is None else _merged(known, rebuilt.record)
    doubts = (*rebuilt.doubts, *_gap(record if known is None else known, record, rebuilt))
    if doubts:
        record = replace(record, legal_hold=True)
        doubts = (*doubts, "the repair puts it under legal hold, because a part of it may be missing")
    missing = f"ledgers {', '.join(map(str, sorted(named - chain)))}"
    missing = f"the log, and its {missing}" if known is None else f"its {missing}"
    return record, StaleRecord(
        f"log {record.name}", missing, doubts, lambda: _put_log(logs, standing, record, rebuilt)
    )


async def find_unnamed_forks(logs: LogStore, identity: bytes, forks: Sequence[Fork]) -> StaleRecord | None:
    """Returns the difference if a log's record does not list all its forks; `make` updates the record and the forks
    (rule L13)."""

    async def name_them() -> None:
        found = await logs.read(identity)
        if found is not None and (lacking := _unnamed(found.record, forks)):
            others = [
                one for one in found.record.forks if one.identity not in {fork.identity for fork in lacking}
            ]
            record = replace(found.record, forks=(*others, *lacking))
            await logs.change(record, found.version, while_held=True)

    found = await logs.read(identity)
    lacking = forks if found is None else _unnamed(found.record, forks)
    if not lacking:
        return None
    name = identity.hex() if found is None else found.record.name
    return StaleRecord(f"log {name}", f"{len(lacking)} of its forks", (), name_them)


def _unnamed(log: LogRecord, forks: Sequence[Fork]) -> list[Fork]:
    named = {one.identity: one for one in log.forks}
    return [one for one in forks if one.identity not in named or one.start < named[one.identity].start]


async def find_stale_set(store: MetadataStore, members: Sequence[LogRecord]) -> StaleRecord | None:
    """Returns the difference if the set of these logs is missing, or has grown since its record was written. The next
    client that opens the set completes the expansion; until then, records appended after the expansion count as
    appended before it. Raises MetadataError."""
    sets, rebuilt = LogSetStore(store), made_again(members)
    name, standing = rebuilt.model.name, await sets.read(rebuilt.model.name)
    if standing is None:
        return StaleRecord(f"set {name}", "the set", (), lambda: sets.create(name, rebuilt))
    known = standing.record
    if known.deleted or known.model.identity != rebuilt.model.identity:
        return None
    if rebuilt.logs <= max(known.logs, known.growing_to):
        return None
    growing = replace(
        known, growing_to=rebuilt.logs, generation=max(known.generation, rebuilt.generation) + 1
    )
    missing = f"logs {known.logs} to {rebuilt.logs - 1}"
    return StaleRecord(f"set {name}", missing, (), lambda: sets.change(name, growing, standing.version))


def _is_later(one: LedgerRecord, known: LogRecord) -> bool:
    said = segment_of(one.custom_metadata)
    assert said is not None
    is_named = one.ledger_id in known.obsolete or any(s.ledger_id == one.ledger_id for s in known.segments)
    return said.first_position >= known.ended_position and not is_named


def _merged(known: LogRecord, later: LogRecord) -> LogRecord:
    """Merges the log's record with its later ledgers: neither the epoch nor the first position decreases."""
    return replace(
        later,
        epoch=max(known.epoch + 1, later.epoch),
        first_position=max(known.first_position, later.first_position),
        legal_hold=known.legal_hold or later.legal_hold,
        obsolete=tuple(dict.fromkeys((*known.obsolete, *later.obsolete)))[:OBSOLETE_MAX],
        forks=known.forks,
    )


def _gap(known: LogRecord, record: LogRecord, rebuilt: RebuiltLog) -> Iterator[str]:
    """Yields a doubt if the earliest segment found does not begin where the log's pages end."""
    first = next((one for page in (*rebuilt.pages, record.segments) for one in page), None)
    begin = max(known.paged_through if known is not record else 0, record.first_position)
    if first is not None and first.first_position > begin:
        yield f"no bookie noted the segments with positions {begin} to {first.first_position - 1}"


async def _put_log(
    logs: LogStore, standing: VersionedLog | None, record: LogRecord, rebuilt: RebuiltLog
) -> None:
    """Writes the name first, then the pages, then the record. This is safe to repeat, because the old record remains in
    place until the end."""
    name = record.name
    if not await logs.give_name(name, record.identity):
        name = standing.record.name if standing else f"{name[:100]}.{record.identity.hex()[:16]}"
        await logs.give_name(name, record.identity)
    for page in rebuilt.pages:
        await logs.put_page(record.identity, page)
    await _raise_term(logs.store, record)
    mine = replace(record, name=name)
    if standing is None:
        await logs.create(mine, while_held=True)
    else:
        await logs.change(mine, standing.version, while_held=True)


async def _raise_term(store: MetadataStore, record: LogRecord) -> None:
    """Makes the next term of the log's election higher than the term that last wrote to the log (rule L7)."""
    if not record.token:
        return
    nobody = TermRecord(record.token + EPOCHS_LEFT, "", 0, f"{keys.CANDIDATES}{record.election}/lost")

    def raised(term: TermRecord | None) -> TermRecord:
        return nobody if term is None or term.token < record.token else term

    key = keys.election(record.election)
    await settled_writes.change(store, key, raised, election_record.decode, election_record.encode)
