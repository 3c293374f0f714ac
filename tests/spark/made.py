"""Records of closed ledgers, made up, and strategies that draw them."""

from __future__ import annotations

from hypothesis import strategies as st

from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape

ENSEMBLE = tuple(BookieRef(f"b{n}", "i") for n in range(5))


def closed(
    ledger_id: int,
    entries: int,
    length_bytes: int,
    *,
    custom: dict[str, bytes] | None = None,
    fragments: tuple[Fragment, ...] = (),
    shape: Shape | None = None,
) -> LedgerRecord:
    """A closed ledger; of one fragment unless others are given."""
    shape = shape or Shape(3, 2, 2)
    return LedgerRecord(
        ledger_id=ledger_id,
        shape=shape,
        fragments=fragments or (Fragment(0, ENSEMBLE[: shape.ensemble_size]),),
        state=LedgerState.CLOSED,
        last_entry=entries - 1,
        length_bytes=length_bytes,
        custom_metadata=custom or {},
    )


@st.composite
def records(draw: st.DrawFn, ledger_id: int) -> LedgerRecord:
    """A closed ledger of some entries, in some fragments whose entries are not equally large."""
    entries = draw(st.integers(0, 5000))
    starts = draw(st.sets(st.integers(1, max(1, entries - 1)), max_size=4)) if entries > 1 else set()
    shape = Shape(draw(st.integers(2, 5)), 2, 1)
    fragments, length = [Fragment(0, ENSEMBLE[: shape.ensemble_size])], 0
    for start in sorted(starts):
        length += draw(st.integers(0, 5_000_000))
        turned = draw(st.permutations(ENSEMBLE))
        fragments.append(Fragment(start, tuple(turned[: shape.ensemble_size]), length))
    length += draw(st.integers(0, 5_000_000)) if entries else 0
    return closed(ledger_id, entries, length, fragments=tuple(fragments), shape=shape)
