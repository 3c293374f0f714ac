"""What others change in the metadata while the bookie lives: writers, recoverers, other bookies' repairs, operators."""

from __future__ import annotations

from dataclasses import replace

from metadata.records.ledger_record import LedgerRecord, LedgerState

from . import plan as steps
from .ledgers import ME, Ledger, joined, left
from .probes import UpkeepProbe
from .site import Site


def change(site: Site, step: steps.Step) -> None:
    """What the step says, where the ledger is such that it may happen."""
    assert isinstance(
        step, steps.Change | steps.Recovering | steps.Close | steps.Move | steps.Delete | steps.Unlist
    )
    ledger = site.ledgers.of(step.ledger)
    site.ledgers.look()
    if ledger.is_deleted or not ledger.is_listed:
        return
    record = ledger.record
    match step:
        case steps.Change() if record.state is LedgerState.OPEN:
            _change_ensemble(site, ledger)
        case steps.Recovering() if record.state is LedgerState.OPEN:
            site.ledgers.put(ledger, record.in_recovery())
        case steps.Close():
            close(site, ledger)
        case steps.Move() if record.is_closed and ledger.is_named:
            site.ledgers.put(ledger, _moved(record))
        case steps.Delete():
            site.ledgers.delete(ledger)
        case steps.Unlist():
            site.ledgers.unlist(ledger)


def _change_ensemble(site: Site, ledger: Ledger) -> None:
    record = ledger.record
    last = record.fragments[-1]
    if ME not in last.ensemble or record.shape.ensemble_size <= 4:
        changed = left(record) if ME in last.ensemble else joined(record)
        first = max(last.first_entry, max(ledger.held, default=-1) + 1)
        site.ledgers.put(ledger, record.changed_ensemble(replace(changed, first_entry=first)))


def close(site: Site, ledger: Ledger) -> None:
    """It is closed behind everything that was acknowledged here."""
    was_outside = ME not in ledger.record.fragments[-1].ensemble
    closed = site.ledgers.closed(ledger)
    site.ledgers.put(ledger, closed)
    if was_outside and ME in closed.fragments[-1].ensemble and ledger.owed:
        site.reached(UpkeepProbe.WRITTEN_BACK)


def _moved(record: LedgerRecord) -> LedgerRecord:
    """Somebody else stands in every place of this bookie."""
    elsewhere = tuple(
        left(replace(record, fragments=record.fragments[: n + 1])) if ME in one.ensemble else one
        for n, one in enumerate(record.fragments)
    )
    return replace(record, fragments=elsewhere)
