"""Reports add up, and stay within a message."""

from __future__ import annotations

import json
from dataclasses import asdict

from bookie.upkeep.reports import LISTED_MAX, RepairReport, Summary, Tally, Unrepaired
from bookie.wire.messages import REPORT_BYTES_MAX


def test_what_was_done_for_each_ledger_adds_up() -> None:
    summary = Summary()
    for done in (
        Tally(7, 3, 300, 1, 2),
        Tally(8, 1, 100, why_not="gone"),
        Tally(8, 1, 1, why_not="again"),
    ):
        summary.add(done)
    expected = RepairReport(3, 1, 5, 401, 1, 2, (Unrepaired(8, "gone"),))
    assert summary.report() == expected
    assert expected.plus(expected) == RepairReport(6, 2, 10, 802, 2, 4, (Unrepaired(8, "gone"),) * 2)


def test_a_report_of_any_number_of_ledgers_fits_a_message() -> None:
    summary = Summary()
    for ledger_id in range(2 * LISTED_MAX):
        summary.add(Tally(ledger_id, why_not="bookie b1: " * 1000))
    report = summary.report()
    assert (report.ledgers_unrepaired, len(report.unrepaired)) == (2 * LISTED_MAX, LISTED_MAX)
    assert len(report.plus(report).unrepaired) == LISTED_MAX
    assert len(json.dumps(asdict(report))) < REPORT_BYTES_MAX
