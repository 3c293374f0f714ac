"""`bookledger ledger recover`: closes a ledger whose writer is gone, or one whose end nobody can prove any more."""

from __future__ import annotations

import time

import click

from ledgers import LedgerClient, LedgerRecord, LossAssessment

from ..config.clients import client_config
from ..options import json_option, ledger_argument, metadata_option, password_option
from ..output import ledger_fields, loss_fields, print_record
from ..terminal import confirm, say
from ..told.help import command
from ..told.stopping import again, told_when_stopped
from .ways_out import ways_out


@command()
@metadata_option
@password_option
@ledger_argument
@click.option(
    "--accept-loss",
    is_flag=True,
    help="A quorum of its bookies is lost for good: close it where those that are left end.",
)
@click.option("--yes", is_flag=True, help="With --accept-loss: do not ask.")
@json_option
def recover(
    metadata_uri: str, password: bytes, ledger_id: int, accept_loss: bool, yes: bool, as_json: bool
) -> None:
    """Fence a ledger whose writer is gone, find its end, close it. A closed ledger is left as it is.

    With --accept-loss what its missing bookies hold is given up, after a question; that stays in the ledger's record.
    It is refused where the end can be proven. It takes an admin's certificate where there are any.

    Examples:
        bookledger ledger recover 7
        bookledger ledger recover 7 --accept-loss
    """
    if yes and not accept_loss:
        raise click.UsageError("--yes goes with --accept-loss")
    with ways_out(metadata_uri, ledger_id), LedgerClient(metadata_uri, config=client_config()) as client:
        began = time.monotonic()
        if accept_loss:
            record = _accepted(client, ledger_id, password, yes=yes)
        else:
            with told_when_stopped(_how):
                record = client.open_ledger(ledger_id, password=password).record
        seconds = round(time.monotonic() - began, 3)
    print_record(
        {**ledger_fields(record), **loss_fields(record), "recover_seconds": seconds}, as_json=as_json
    )


def _how() -> str:
    return f"its writer may be fenced, and nothing confirmed is lost; {again()}"


def _accepted(client: LedgerClient, ledger_id: int, password: bytes, *, yes: bool) -> LedgerRecord:
    record = client.describe_ledger(ledger_id)
    if record.is_closed:
        return record
    assessment = client.assess_loss(ledger_id, password=password)
    for line in _shown(assessment):
        say(line, err=True)
    if not yes:
        end = assessment.last_entry
        confirm(
            f"give up what they hold, and close ledger {ledger_id} "
            f"{f'at entry {end}' if end >= 0 else 'as an empty one'}, for good?"
        )
    with told_when_stopped(_how):
        return client.accept_loss(assessment, password=password)


def _shown(assessment: LossAssessment) -> list[str]:
    """What would be given up, and what can be done instead."""
    ledger_id, proven, last = assessment.ledger_id, assessment.proven_through, assessment.last_entry
    proof = f"confirmed to entry {proven}" if proven >= 0 else "not proven to have a confirmed entry"
    end = f"at entry {last}" if last >= 0 else "before its first entry"
    lines = [f"ledger {ledger_id} is {proof}, as far as it can be proven; what is left of it ends {end}"]
    for one in assessment.missing:
        if one.is_lost:
            lines.append(f"{one.bookie} is lost: {one.why}")
        else:
            lines.append(
                f"{one.bookie} is only away: {one.why}. If it comes back, it may prove where the ledger ends "
                f"(`bookledger ledger recover {ledger_id}`); what only it holds is given up now"
            )
    if assessment.confirmed_and_lost:
        lines.append(
            f"entries {last + 1} to {proven} were confirmed, and none of those that answer has the last"
        )
    lines.append(
        f"`bookledger ledger salvage {ledger_id} --output FILE` saves what there is, also past that end"
    )
    return lines
