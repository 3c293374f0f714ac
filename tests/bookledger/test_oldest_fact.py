"""No face says more of a cluster than the oldest of its facts: silent bookies, counts of other bookies, full disks."""

from __future__ import annotations

from dataclasses import replace

from bookledger.cluster import health
from metadata.counting import facts
from metadata.counting.facts import Fact, Finding, Verdict
from metadata.healing.operator_requests import OrderKind

from .test_survey import BK1, BK2, FORMATTED, survey


def snapshot(
    silent: dict[str, str] | None = None, *, free: int = 50, writable: bool = True
) -> health.ClusterSnapshot:
    seen = survey((True, writable), FORMATTED)
    full = replace(seen.view.living[BK2], disk_bytes_total=100, disk_bytes_free=free)
    view = replace(seen.view, living={BK1: seen.view.living[BK1], BK2: full})
    return health.ClusterSnapshot(view, seen.metadata, seen.auditor, None, silent)


def of(fact: Fact, found: list[Finding]) -> Finding:
    (one,) = [one for one in found if one.fact is fact]
    return one


def test_a_bookie_that_is_registered_and_does_not_answer_keeps_the_cluster_from_whole() -> None:
    counted = survey((True, True), FORMATTED)
    found = health.findings(snapshot({"b2": "timed out", "gone": "timed out"}), counted)
    assert facts.whole(found) is Verdict.AMISS
    assert health.why_not_whole(found) == ["registered, but silent: b2 (timed out)"]
    assert facts.whole(health.findings(snapshot({}), counted)) is Verdict.WELL
    assert of(facts.ANSWERING, health.findings(snapshot(), counted)).verdict is Verdict.UNKNOWN
    assert facts.whole(health.findings(snapshot(), counted)) is Verdict.WELL, "they have not been called"


def test_copies_that_were_counted_when_other_bookies_lived_are_not_known() -> None:
    counted = survey((True, True), FORMATTED)
    counted.view = replace(counted.view, living={BK1: counted.view.living[BK1]})
    found = health.findings(snapshot(), counted)
    assert of(facts.COPIES, found).verdict is Verdict.UNKNOWN
    assert facts.whole(found) is Verdict.UNKNOWN


def test_a_disk_that_is_nearly_full_is_told_and_leaves_the_cluster_whole() -> None:
    counted = survey((True, True), FORMATTED)
    found = health.findings(snapshot(free=1), counted)
    assert "b2 (99% of its disk in use)" in of(facts.ROOM, found).why
    assert facts.whole(found) is Verdict.WELL
    assert of(facts.ROOM, health.findings(snapshot(free=6), counted)).verdict is Verdict.WELL
    read_only = snapshot(writable=False)
    assert of(facts.ROOM, health.findings(read_only, counted)).verdict is Verdict.AMISS
    leaving = replace(read_only, view=replace(read_only.view, orders={"b2": OrderKind.DRAIN}))
    assert of(facts.ROOM, health.findings(leaving, counted)).verdict is Verdict.WELL
