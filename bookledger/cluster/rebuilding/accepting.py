"""Brings logs up to their ledgers: metadata that went back does not name the later ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from metadata import keys, settled_writes
from metadata.records.coordination import election_record
from metadata.records.coordination.election_record import TermRecord
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_ledgers import SEGMENT, segment_of
from metadata.records.logs.log_record import OBSOLETE_MAX, LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.store import MetadataStore

from .logs import EPOCHS_LEFT, RebuiltLog, rebuilt_log

TOLD = "where cursors stood, and what was changed since of sets, retention and legal holds, no ledger tells"


@dataclass(frozen=True, slots=True)
class Behind:
    """A log of which ledgers show more than its record, `missing` in words. `make` brings the record up by
    compare-and-swap; it raises MetadataError, as where somebody changed it meanwhile."""

    about: str
    missing: str
    doubts: tuple[str, ...]
    make: Callable[[], Awaitable[None]]


def is_chained(ledger: LedgerRecord) -> bool:
    """Whether a ledger is a segment of a log."""
    return SEGMENT in ledger.custom_metadata


async def behind(
    store: MetadataStore, noted: Iterable[LedgerRecord] = (), *, is_held: bool
) -> AsyncIterator[Behind]:
    """All of them, by the ledgers that the store has, and those that bookies have noted better.

    Where the metadata is not held back, writers are at work: a ledger counts that was written to, or that has an epoch
    above its log's. Raises MetadataError.
    """
    found = {
        one.record.ledger_id: one.record async for one in LedgerStore(store).list() if is_chained(one.record)
    }
    found |= {one.ledger_id: one for one in noted}
    of_logs: dict[bytes, list[LedgerRecord]] = defaultdict(list)
    for one in found.values():
        if (said := segment_of(one.custom_metadata)) is not None:
            of_logs[said.identity].append(one)
    for identity, ledgers in sorted(of_logs.items()):
        log = await _log(LogStore(store), identity, ledgers, is_held=is_held)
        if log is not None:
            yield log


async def _log(
    logs: LogStore, identity: bytes, ledgers: list[LedgerRecord], *, is_held: bool
) -> Behind | None:
    standing = await logs.read(identity)
    known = None if standing is None else standing.record
    if known is not None and known.deleted:
        return None
    later = [one for one in ledgers if _is_later(one, known) and (is_held or _is_sure(one, known))]
    if not is_held and standing is None:  # of a log that was deleted meanwhile nothing is left
        later = [one for one in later if await LedgerStore(logs.store).read(one.ledger_id)]
    if not later:
        return None
    chain = set() if known is None else {segment.ledger_id for segment in known.segments}
    rebuilt = rebuilt_log([*later, *(one for one in ledgers if one.ledger_id in chain)])
    named = [one.ledger_id for page in (*rebuilt.pages, rebuilt.record.segments) for one in page]
    if known is not None and chain.issuperset(named):
        return None
    record = rebuilt.record if known is None else _merged(known, rebuilt.record)
    doubts = (*rebuilt.doubts, *_gap(record if known is None else known, record, rebuilt))
    if doubts:
        record = replace(record, legal_hold=True)
        doubts = (*doubts, "it is under legal hold then, for a part of it may be missing")
    missing = f"ledgers {', '.join(map(str, sorted(set(named) - chain)))}"
    return Behind(
        f"log {record.name}",
        "the log, and its " + missing if known is None else f"its {missing}",
        doubts,
        lambda: _put_log(logs, standing, record, rebuilt),
    )


def _is_later(one: LedgerRecord, known: LogRecord | None) -> bool:
    said = segment_of(one.custom_metadata)
    assert said is not None
    if known is None:
        return True
    is_named = one.ledger_id in known.obsolete or any(s.ledger_id == one.ledger_id for s in known.segments)
    return said.first_position >= known.ended_position and not is_named


def _is_sure(one: LedgerRecord, known: LogRecord | None) -> bool:
    said = segment_of(one.custom_metadata)
    assert said is not None
    was_written = one.last_entry is not None and one.last_entry >= 0
    return was_written or (known is not None and said.epoch > known.epoch)


def _merged(known: LogRecord, later: LogRecord) -> LogRecord:
    """What the log's record had, and what its later ledgers say: neither the epoch nor the first position goes back."""
    return replace(
        later,
        epoch=max(known.epoch + 1, later.epoch),
        first_position=max(known.first_position, later.first_position),
        legal_hold=known.legal_hold or later.legal_hold,
        obsolete=tuple(dict.fromkeys((*known.obsolete, *later.obsolete)))[:OBSOLETE_MAX],
    )


def _gap(known: LogRecord, record: LogRecord, rebuilt: RebuiltLog) -> Iterator[str]:
    """Where the earliest segment that was found does not begin where the log's pages end."""
    first = next((one for page in (*rebuilt.pages, record.segments) for one in page), None)
    begin = max(known.paged_through if known is not record else 0, record.first_position)
    if first is not None and first.first_position > begin:
        yield f"nobody noted the segments with positions {begin} to {first.first_position - 1}"


async def _put_log(
    logs: LogStore, standing: VersionedLog | None, record: LogRecord, rebuilt: RebuiltLog
) -> None:
    """First the name, then pages, then the record: safe to repeat, since it stands as it was until the end."""
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
        await logs.change(mine, standing.version)


async def _raise_term(store: MetadataStore, record: LogRecord) -> None:
    """The next term of the log's election is above the one that wrote to it last (rule L7)."""
    if not record.token:
        return
    key = keys.election(record.election)
    found = await store.get(key)
    if found is not None and election_record.decode(key, found.value).token >= record.token:
        return
    nobody = election_record.encode(
        TermRecord(record.token + EPOCHS_LEFT, "", 0, f"{keys.CANDIDATES}{record.election}/lost")
    )
    if found is None:
        await settled_writes.create(store, key, nobody)
    else:
        await settled_writes.replace(store, key, nobody, found.version)
