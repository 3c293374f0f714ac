"""Writers, acceptors and readers of a journal, and operators of its acceptors, under random faults: J1 to J6.

`SIM_PAIRS=1` meddles with every pair of messages, answers too, instead of every few of calls; that takes minutes.
"""

from __future__ import annotations

import os
from itertools import islice

import pytest

from tests.simulation.engine.contract import LayerContract
from tests.simulation.engine.runs import Failed, Run

from .found import FOUND
from .layer import LAYER
from .ledgers import Ledger, Pending
from .pairs import failing, messages, plans
from .plan import FORMS, Cut, Figures, Pause, Plan, Tamper, Writer
from .planted_in_managers import numbers_nothing
from .planted_in_managers import one_is_a_majority as canary
from .probes import JournalProbe, SyncProbe
from .run import play

ALL_PAIRS = bool(os.environ.get("SIM_PAIRS"))
PAIRS_STEP = 1 if ALL_PAIRS else 13
"""Every so many pairs; no divisor of the ways to meddle with two calls, so that all of them come."""


class TestJournals(LayerContract):
    layer = LAYER
    found = FOUND
    seeds = 600
    rarest = (JournalProbe.SWAP_OVERTAKEN, SyncProbe.PURGED)
    shrinks = {canary: 8}  # noqa: RUF012 — the contract says that it is the class's

    def test_journals_of_all_forms_are_drawn(self, runs: list[Run]) -> None:
        assert {run.plan.form for run in runs} == set(FORMS)


# --- pairs of faults ----------------------------------------------------------------------------


def test_no_pair_of_calls_that_are_lost_late_or_doubled_breaks_a_promise() -> None:
    some = islice(plans(messages(answers=ALL_PAIRS)), 0, None, PAIRS_STEP)
    assert [f"{failed.__cause__!r} {failed.plan!r}" for failed in failing(some)] == []


def test_pairs_of_calls_find_a_bug_that_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    some = islice(plans(messages(answers=ALL_PAIRS)), 0, None, PAIRS_STEP)
    canary(monkeypatch)
    assert next(failing(some), None) is not None


# --- the harness itself -------------------------------------------------------------------------


def test_a_tampered_message_is_lost() -> None:
    plan = Plan(1, writers=(Writer(0.0),), faults=(Tamper("StartLogSegment", "w0", "a0"),))
    lost = [line for line in play(plan).trace if "lost" in line]
    assert len(lost) == 1
    assert "StartLogSegment from w0 to a0" in lost[0]


def test_what_arrives_behind_the_end_of_a_ledger_is_not_in_it() -> None:
    ledger = Ledger(1)
    pending = Pending(batch=None, confirm=lambda told: None)  # type: ignore[arg-type]  # nobody looks into it
    ledger.end(0)
    ledger.pending.append(pending)
    assert ledger.land(pending) is False


def test_a_discard_of_a_journal_of_which_all_that_was_finalized_is_purged() -> None:
    """The writer that purged it left its own segment open, after the last writer had read everything."""
    plan = Plan(
        seed=930169728,
        writers=(Writer(at=0.0, attempts=3, purges=True, leaves_open=True), Writer(at=17.7)),
        faults=(Pause(host="a0", at=40.0, seconds=20.0), Cut(source="", target="a1", at=20.0)),
        figures=Figures(loss=0.2, unknown=0.06, slow=0.1),
        heals_at=56.0,
        admin="discard",
    )
    assert JournalProbe.DISCARDED in play(plan).probes


def test_a_run_that_never_ends_is_a_failure() -> None:
    """Where no writer comes through, that is a broken promise and not the end of the run."""
    with pytest.MonkeyPatch.context() as patch:
        numbers_nothing(patch)
        with pytest.raises(Failed) as failed:
            play(Plan(1))
    assert failed.value.is_violation
    assert failed.value.rule == "liveness"
