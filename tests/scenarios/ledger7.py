"""Short names for tests that drive the machines by hand: the bookies, entries and records of ledger 7."""

from __future__ import annotations

from collections.abc import Sequence

from bookie.wire import (
    NO_ENTRIES,
    Columns,
    EntryRange,
    LacReply,
    LacStatement,
    ReadReply,
    Status,
    merge,
    of_payloads,
)
from ledgers.errors import LedgerError
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    AppendEffect,
    ChangeRecord,
    FindReplacements,
    Finish,
    RecoveryEffect,
)
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape

LEDGER = 7
DIGESTER = Crc32cDigester(LEDGER)

BK0, BK1, BK2, BK3, BK4, BK5, BK6 = (BookieRef(f"b{n}", f"incarnation-{n}") for n in range(7))
ALL = (BK0, BK1, BK2, BK3, BK4, BK5, BK6)


def payload(entry_id: int) -> bytes:
    """Two bytes, so that lengths are easy to tell."""
    return b"%02d" % entry_id


def entries(*ids: int) -> Columns:
    """These entries, as every copy of them looks."""
    return merge(of_payloads(i, [payload(i)], DIGESTER.sign(i, [payload(i)])) for i in ids)


def record(
    sizes: tuple[int, int, int],
    *fragments: tuple[int, Sequence[BookieRef]],
    state: LedgerState = LedgerState.OPEN,
) -> LedgerRecord:
    """Fragments as (first entry, ensemble); by default one of the first bookies. Two bytes an entry."""
    shape = Shape(*sizes)
    made = fragments or ((0, ALL[: shape.ensemble_size]),)
    return LedgerRecord(
        LEDGER, shape, tuple(Fragment(first, tuple(ens), 2 * first) for first, ens in made), state
    )


def writer(sizes: tuple[int, int, int], *, appended: int = 0, confirmed: int = 0) -> AppendPipeline:
    """A started pipeline over lanes 1…E, with this many entries appended, the first of them confirmed."""
    pipeline = AppendPipeline(record(sizes))
    pipeline.start()
    for first, last in ((0, confirmed), (confirmed, appended)):
        if last > first:
            pipeline.append(entries(*range(first, last)))
        if first == 0 and confirmed:
            for lane in range(1, pipeline.record.shape.ensemble_size + 1):
                pipeline.acked(lane, confirmed - 1)
    assert pipeline.last_add_confirmed == confirmed - 1
    return pipeline


def asks_for(ensemble: Sequence[BookieRef], **failed: str) -> FindReplacements:
    """`asks_for((BK0, BK1), p1="gone")`: a replacement is wanted at position 1."""
    return FindReplacements(tuple(ensemble), {int(name[1:]): why for name, why in failed.items()})


def proposed(effects: Sequence[AppendEffect] | Sequence[RecoveryEffect]) -> LedgerRecord:
    """The record of the one compare-and-swap that is asked for, and nothing else is."""
    (effect,) = effects
    assert isinstance(effect, ChangeRecord)
    return effect.record


def failure(effects: Sequence[AppendEffect] | Sequence[RecoveryEffect]) -> LedgerError:
    """The error that the machine ends with."""
    last = effects[-1]
    assert isinstance(last, Finish) and last.error is not None
    return last.error


def in_recovery(sizes: tuple[int, int, int], *fragments: tuple[int, Sequence[BookieRef]]) -> Recovery:
    """A recovery that has not begun."""
    return Recovery(record(sizes, *fragments, state=LedgerState.IN_RECOVERY), DIGESTER)


def lac(last_entry: int) -> LacStatement:
    return DIGESTER.sign_lac(last_entry, 2 * (last_entry + 1))


def told(last_entry: int) -> LacReply:
    """A bookie's answer to a fencing LAC read, which vouches for the metadata."""
    return LacReply(Status.OK, lac(last_entry), vouched_since=1)


KNOWS_NOTHING = LacReply(Status.NO_SUCH_LEDGER, vouched_since=1)


def page(*ids: int, through: int = 5000, damaged: tuple[EntryRange, ...] = ()) -> ReadReply:
    """A fenced page with these entries, which speaks for all ids through `through`."""
    return ReadReply(Status.OK, entries(*ids) if ids else NO_ENTRIES, through, damaged)


def forged(entry_id: int) -> ReadReply:
    """A page whose one entry does not fit its digest."""
    good = entries(entry_id)
    return ReadReply(Status.OK, Columns(good.entry_ids, good.lengths, good.digests, b"??"), 5000)
