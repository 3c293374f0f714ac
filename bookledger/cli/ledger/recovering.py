"""`bookledger ledger recover`: closes a ledger whose writer is gone, even if its end can no longer be proven."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from ledgers import LedgerClient, LedgerRecord, LossAssessment
from metadata.records.ledger_record import JOURNAL

from ..membership.targets import LedgerPlace, connected, ledger_place
from ..messages.help import command
from ..messages.interruption import again
from ..options import json_option
from ..output import ledger_fields, long_work, loss_fields, print_record
from ..terminal import confirm, say


@command()
@ledger_place
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Close the ledger where the surviving bookies end, because a quorum of its bookies is lost for good.",
)
@click.option("--yes", is_flag=True, help="With --accept-loss: do not ask.")
@json_option
def recover(place: LedgerPlace, accept_loss: bool, yes: bool, as_json: bool) -> None:
    """Fence a ledger whose writer is gone, find its end, and close it. A closed ledger is not changed.

    With --accept-loss, entries that only missing bookies hold are lost. The command asks for confirmation first, and
    the loss is noted in the ledger's record. The command refuses if the end can be proven. If certificates are in use,
    --accept-loss requires an admin's certificate.

    Examples:
        bookledger ledger recover 7
        bookledger ledger recover 7 --accept-loss
    """
    if yes and not accept_loss:
        raise click.UsageError("--yes is only valid with --accept-loss")
    ledger_id, password = place.ledger_id, place.password
    with connected(place.metadata_uri) as client:
        began = time.monotonic()
        if accept_loss:
            record = _accepted(client, ledger_id, password, yes=yes)
        else:
            with long_work(f"recovering ledger {ledger_id}", _how):
                record = client.open_ledger(ledger_id, password=password).record
        seconds = round(time.monotonic() - began, 3)
    print_record(
        {**ledger_fields(record), **loss_fields(record), "recover_seconds": seconds}, as_json=as_json
    )


def _how() -> str:
    return f"its writer may be fenced, and nothing confirmed is lost; {again()}"


def _how_accepting() -> str:
    return f"its writer may be fenced, and the ledger may be closed already (`bookledger ledger show`); {again()}"


def _accepted(client: LedgerClient, ledger_id: int, password: bytes, *, yes: bool) -> LedgerRecord:
    record = client.describe_ledger(ledger_id)
    if record.is_closed:
        return record
    with long_work(f"asking the bookies of ledger {ledger_id}", _how):
        assessment = client.assess_loss(ledger_id, password=password)
    for line in [*_shown(assessment, record), *_of_a_journal(record)]:
        say(line, err=True)
    if not yes:
        end = assessment.last_entry
        confirm(
            f"accept this loss, and close ledger {ledger_id} "
            f"{f'at entry {end}' if end >= 0 else 'as an empty one'}, for good?"
        )
    with long_work(f"closing ledger {ledger_id}", _how_accepting):
        closed = client.accept_loss(assessment, password=password)
    if closed.accepted_loss is None:
        say("nothing was lost: the ledger was recovered and closed in the meantime", err=True)
    elif (closed_at := closed.last_entry) is not None and closed_at < assessment.last_entry:
        say(
            f"{closed.accepted_loss.by} closed it in the meantime, at entry {closed_at} and not at "
            f"{assessment.last_entry}; `bookledger ledger salvage {ledger_id} --past-the-end --output FILE` "
            "saves the entries after it",
            err=True,
        )
    return closed


def _shown(assessment: LossAssessment, record: LedgerRecord) -> Iterator[str]:
    """Yields lines that describe the entries that would be lost, and the alternatives."""
    ledger_id, proven, last = assessment.ledger_id, assessment.proven_through, assessment.last_entry
    proof = f"confirmed up to entry {proven}" if proven >= 0 else "not proven to have a confirmed entry"
    end = f"at entry {last}" if last >= 0 else "before its first entry"
    yield f"ledger {ledger_id} is {proof}, as far as it can be proven; its surviving entries end {end}"
    yield f"its bookies' answers about {assessment.behind}"
    for one in assessment.missing:
        if one.is_lost:
            yield f"{one.bookie} is lost: {one.why}"
        else:
            yield (
                f"{one.bookie} is only away: {one.why}. If it comes back, it may prove where the ledger ends "
                f"(`bookledger ledger recover {ledger_id}`); accepting the loss loses the entries that only it holds"
            )
    for bookie in record.also_at:
        yield (
            f"{bookie} is not in the ledger's last ensemble, and holds more of the ledger than the record shows: the "
            "metadata is older than the ledger. The bookie's entries after that end are lost, and removed later; "
            "if it has noted more than entries, `bookledger metadata check --accept` keeps them"
        )
    if any(not one.is_lost for one in assessment.missing):
        yield (
            "make sure that the ledger's writer has ended: otherwise it may continue to confirm entries with the "
            "absent bookies, and these entries are lost, too, until one of these bookies is back and refuses them"
        )
    if assessment.confirmed_and_lost:
        yield f"entries {last + 1} to {proven} were confirmed, and no bookie that answers has the last one"
    if assessment.unreadable:
        yield (
            f"entries before that end that cannot be read until one of these bookies is back: {assessment.unreadable}"
        )
    yield (
        f"`bookledger ledger salvage {ledger_id} --output FILE` saves the entries that exist, including those past "
        "that end"
    )


def _of_a_journal(record: LedgerRecord) -> Iterator[str]:
    """Yields a warning for a journal's segment, because journals rely on entries that their acceptors have
    acknowledged."""
    if (journal := record.custom_metadata.get(JOURNAL)) is not None:
        from qjm_compat.acceptor.acceptor_ledgers import ACCEPTOR_OF_LEDGER

        acceptor = record.custom_metadata.get(ACCEPTOR_OF_LEDGER, b"")
        yield (
            f"it is a segment of journal {journal.decode(errors='replace')!r} at the acceptor "
            f"{acceptor.decode(errors='replace')!r}: edits that this acceptor has acknowledged may be lost. If "
            "a majority of the journal's acceptors is complete, continue with these instead"
        )
