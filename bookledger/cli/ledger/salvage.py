"""`bookledger ledger salvage`: for a ledger that cannot be recovered or read, copies to a file the entries that live
bookies hold."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ledgers import Columns, Gap, LedgerClient, Salvage
from ledgers.reading.batch_read import entries_of

from ..config.clients import client_config
from ..membership.targets import LedgerPlace, ledger_place
from ..messages.exit_codes import ExitCode
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..options import FilePath, json_option
from ..output import ProgressBar, check_is_new, print_json, print_record, waiting, whole_file
from ..terminal import say

STANDARD_OUTPUT = Path("-")


@command()
@ledger_place
@click.option(
    "--output", "-o", type=FilePath(dir_okay=False), required=True, help="New file, with one line per entry."
)
@click.option(
    "--from",
    "bookies",
    metavar="BOOKIE",
    multiple=True,
    help="Read only from this bookie; may be given several times.",
)
@click.option(
    "--past-the-end",
    is_flag=True,
    help="Also save entries that bookies hold past the end of a closed ledger.",
)
@json_option
def salvage(
    place: LedgerPlace, output: Path, bookies: tuple[str, ...], past_the_end: bool, as_json: bool
) -> None:
    """Write the entries of a ledger that live bookies hold, proven or not, to a file. Nothing is fenced or changed.

    Each line is one entry, as `ledger read --json` prints it, with "proven": false if nothing proves that the entry is
    confirmed. `ledger append --json-lines` accepts the file. Missing entries are printed. The exit code is 0 if the
    file has all entries of the ledger, all of them proven; 3 if an entry is missing or not proven.

    Examples:
        bookledger ledger salvage 7 --output ledger-7.json
        bookledger ledger salvage 7 --output ledger-7.json --from b1 --from b4
        bookledger ledger append --json-lines ledger-7.json
    """
    if output == STANDARD_OUTPUT:
        raise click.UsageError("--output takes a file: the list of missing entries goes to standard output")
    check_is_new(output)
    found, ledger_id = _SalvageFindings(), place.ledger_id
    with (
        advise_when_stopped(lambda: f"{output} was not written, and nothing was changed; {again()}"),
        whole_file(output) as out,
        LedgerClient(place.metadata_uri, config=client_config()) as client,
    ):
        with waiting(f"asking the bookies of ledger {ledger_id}"):
            ledger = client.salvage_ledger(
                ledger_id, password=place.password, bookies=bookies, past_the_end=past_the_end
            )
        with ProgressBar(f"salvaging ledger {ledger_id}", ledger.record.length_bytes) as advance:
            for part in ledger.parts():
                if isinstance(part, Gap):
                    found.add_gap(part, as_json=as_json)
                else:
                    out.writelines(found.lines(part, ledger.proven_through))
                    advance(len(part.payload))
        found.print_last_gap(as_json=as_json)
    _report(ledger, found, output, as_json=as_json)
    sys.exit(ExitCode.DONE if found.is_all_of(ledger) else ExitCode.PARTLY)


@dataclass(slots=True)
class _SalvageFindings:
    """Totals of the entries found and of those missing. `gap`: the last gap, which may still grow."""

    entries: int = 0
    payload_bytes: int = 0
    unproven: int = 0
    missing: int = 0
    gap: Gap | None = None
    last_entry: int | None = field(default=None)

    def lines(self, part: Columns, proven_through: int) -> Iterator[bytes]:
        for entry_id, payload in entries_of(part):
            is_proven = entry_id <= proven_through
            self.entries += 1
            self.payload_bytes += len(payload)
            self.unproven += not is_proven
            self.last_entry = entry_id
            yield _line(entry_id, payload, is_proven=is_proven)

    def add_gap(self, gap: Gap, *, as_json: bool) -> None:
        """Adds a gap. Gaps are printed as soon as they are complete, because there may be more of them than fit in
        memory."""
        self.missing += gap.last_entry - gap.first_entry + 1
        joined = self.gap.followed_by(gap) if self.gap is not None else None
        if joined is None:
            self.print_last_gap(as_json=as_json)
        self.gap = joined or gap

    def print_last_gap(self, *, as_json: bool) -> None:
        if self.gap is not None:
            _print_gap(self.gap, as_json=as_json)
        self.gap = None

    def is_all_of(self, ledger: Salvage) -> bool:
        """Returns whether the file has the whole ledger, with every entry proven. If the ledger is not closed, all
        bookies must have answered, because a bookie that has not answered may have more entries."""
        is_whole = not self.missing and not self.unproven
        return is_whole and (ledger.record.is_closed or not (ledger.silent or ledger.unsure))


def _line(entry_id: int, payload: bytes, *, is_proven: bool) -> bytes:
    proven = b"true" if is_proven else b"false"
    encoded = base64.b64encode(payload)
    return b'{"entry_id":%d,"payload_base64":"%s","proven":%s}\n' % (entry_id, encoded, proven)


def _print_gap(gap: Gap, *, as_json: bool) -> None:
    if as_json:
        first, last = gap.first_entry, gap.last_entry
        bookies = {"unreadable": list(gap.unreadable), "lacking": list(gap.lacking)}
        print_json({"missing": [first, last], **bookies})
        return
    which = f"entry {gap.first_entry}"
    if gap.last_entry > gap.first_entry:
        which = f"entries {gap.first_entry} to {gap.last_entry}"
    reasons = [f"{name}: a copy that cannot be read" for name in gap.unreadable]
    reasons += [f"{name}: none" for name in gap.lacking]
    say(f"missing: {which} ({'; '.join(reasons) or 'none of its bookies was asked'})")


def _report(ledger: Salvage, found: _SalvageFindings, output: Path, *, as_json: bool) -> None:
    fields: dict[str, Any] = {
        "ledger_id": ledger.record.ledger_id,
        "state": ledger.record.state.value,
        "entries": found.entries,
        "bytes": found.payload_bytes,
        "last_entry_found": found.last_entry,
        "proven_through": ledger.proven_through,
        "unproven_entries": found.unproven,
        "missing_entries": found.missing,
        "not_asked": dict(sorted(ledger.silent.items())),
        "unsure": ledger.unsure,
        "complete": found.is_all_of(ledger),
        "output": str(output),
    }
    print_record(fields, as_json=as_json)
