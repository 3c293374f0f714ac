"""Judges a cluster's health, fact by fact, from data read from its metadata. Pure.

Facts that require every ledger's record are unknown before the first count, and afterwards as old as the latest count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bookie.upkeep.healing.cluster_view import ClusterView, Fate
from metadata.backup.hold import Restored
from metadata.counting import facts
from metadata.counting.facts import Fact, Finding, Verdict
from metadata.healing.lease_lock import LeaseLock
from metadata.healing.operator_requests import OrderKind
from metadata.records.cold.offloader_state import OffloaderState
from metadata.records.ledger_record import BookieRef
from metadata.store import StoreHealth

from .survey import Survey

RESTORE_COOKIE = "`bookledger bookie restore-cookie --data DIR` writes it again"

TAKE_BACK = "`bookledger cluster decommission NAME --cancel` cancels that"

SAY_SO = "decommission those that will not come back: bookledger cluster decommission NAME"

SEE_RETENTION = "start their consumers, or remove them from the retention: bookledger log retention LOG"

NOT_COUNTED = "the ledgers are being counted"

NAMES_MAX = 20
"""Maximum number of bookies that one reason lists by name; further ones are only counted."""

NEARLY_FULL = 0.95
"""A bookie is reported once this share of its disk space is used."""

_TLS = "TLS: "
"""Prefix of a TLS handshake error in the reason why a call failed."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Data read from a cluster at one time; its ledgers are not included."""

    view: ClusterView
    metadata: StoreHealth
    auditor: LeaseLock | None
    hold: Restored | None
    silent: Mapping[str, str] | None = None
    """Why bookies do not answer, by bookie name; None if no bookie was called."""
    offloader: OffloaderState | None = None


def of_survey(seen: Survey) -> list[Finding]:
    """Returns the findings of a survey that has just ended, in which every fact is known."""
    snapshot = ClusterSnapshot(seen.view, seen.metadata, seen.auditor, seen.hold, None, seen.offloader)
    return findings(snapshot, seen, seen.counted_seconds_ago)


def is_whole(seen: Survey) -> bool:
    """Returns whether every copy is in place, and everything that keeps the copies in place is working."""
    return facts.whole(of_survey(seen)) is Verdict.WELL


def why_not_whole(found: Iterable[Finding]) -> list[str]:
    """Returns the problems, each in a few words, with the remedy if there is one."""
    return [one.why for one in found if one.keeps_from_whole]


def rows(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Returns the findings as plain values, for JSON."""
    return [
        {
            "fact": one.fact.name,
            "verdict": one.verdict.value,
            "why": one.why,
            "age_seconds": None if one.verdict is Verdict.UNKNOWN else round(one.age_seconds, 1),
            "keeps_from_whole": one.keeps_from_whole,
        }
        for one in found
    ]


def findings(now: ClusterSnapshot, counted: Survey | None, counted_seconds_ago: float = 0.0) -> list[Finding]:
    """Returns the findings on all facts of a cluster, in the order of the facts; `counted` is the last survey of all
    ledgers."""
    view = now.view
    return [
        *_of_ledgers(view, counted, counted_seconds_ago),
        facts.of_store(now.metadata),
        facts.AUDITOR.found("" if now.auditor else "there is no auditor, so lost copies are not detected"),
        facts.ACCEPTED.found(_not_accepted(now.hold)),
        facts.REGISTERED.found(_not_registered(view)),
        facts.BRAKE.found(_braked(view)),
        facts.SPACE.found(_all_read_only(view)),
        facts.COOKIES.found(_without_cookie(view)),
        facts.BELONGING.found(_given_up_and_alive(view)),
        _reachable(view, now.auditor),
        _answering(view, now.silent),
        facts.ROOM.found(_without_room(view)),
        *(fact.found(_published(view, fact)) for fact in facts.PUBLISHED),
        facts.CURSORS.found(_silent(now.auditor)),
        facts.OBJECTS.found(_missing(now.offloader)),
        facts.SAFE.found(now.metadata.doubt),
    ]


def _of_ledgers(view: ClusterView, counted: Survey | None, age_seconds: float) -> Iterator[Finding]:
    if counted is None or counted.view.living.keys() != view.living.keys():
        yield from (
            fact.unknown(NOT_COUNTED) for fact in (facts.COPIES, facts.CLOSED, facts.FORGOTTEN, facts.NAMED)
        )
        return
    for fact, why in (
        (facts.COPIES, _lacking(counted)),
        (facts.CLOSED, _left_behind(counted)),
        (facts.FORGOTTEN, _referred_to(view, counted.holdings.keys())),
        (facts.NAMED, _without_name(view, counted.holdings.keys())),
    ):
        yield fact.found(why, age_seconds=age_seconds)


def _lacking(counted: Survey) -> str:
    bad = sum(count for condition, count in counted.fragments.items() if not condition.is_well)
    return f"{bad} fragments have missing or misplaced copies" if bad else ""


def _left_behind(counted: Survey) -> str:
    left = counted.left_behind
    return f"{left} ledgers are not closed, and seem to have no writer" if left else ""


def _not_accepted(hold: Restored | None) -> str:
    if hold is None:
        return ""
    noticed = "" if hold.noticed is None else f" ({hold.noticed})"
    return f"the metadata is an older copy that was not accepted{noticed}: bookledger metadata check"


def _absent(view: ClusterView) -> list[BookieRef]:
    refs = (BookieRef(name, incarnation) for name, incarnation in sorted(view.formatted.items()))
    return [ref for ref in refs if ref not in view.living]


def _not_registered(view: ClusterView) -> str:
    """Describes the bookies that are neither alive nor given up, and when their data is copied."""
    away = [ref for ref in _absent(view) if view.orders.get(ref.bookie_id) is not OrderKind.GIVEN_UP]
    if not away:
        return ""
    unexpected = [ref for ref in away if ref.bookie_id not in view.orders and not view.is_braked]
    waits = any(view.fate(ref) is Fate.AWAY for ref in unexpected)
    when = (
        f"is copied elsewhere after {view.wait_ms / 1000:g} s of absence"
        if waits
        else "is to be copied elsewhere"
    )
    then = f"; their data {when}" if unexpected else ""
    return f"not registered: {_names(away)}{then}"


def _braked(view: ClusterView) -> str:
    if not view.is_braked:
        return ""
    return f"{_listed(view.unexpectedly_absent)} are absent: nothing is copied while so many are absent; {SAY_SO}"


def _referred_to(view: ClusterView, held: Collection[BookieRef]) -> str:
    given_up = {
        ref.bookie_id for ref in _absent(view) if view.orders.get(ref.bookie_id) is OrderKind.GIVEN_UP
    }
    left = [ref for ref in held if ref.bookie_id in given_up]
    return f"given up, but ledgers still refer to it: {_names(left)}" if left else ""


def _all_read_only(view: ClusterView) -> str:
    if not view.living or any(one.writable for one in view.living.values()):
        return ""
    return "every live bookie is read-only: nothing can be written; free space on their disks"


def _without_cookie(view: ClusterView) -> str:
    strange = [ref for ref in view.living if ref.bookie_id not in view.formatted]
    if not strange:
        return ""
    problem = "alive, but without a cookie in the metadata, so a restart would fail"
    return f"{problem}: {_names(strange)}; {RESTORE_COOKIE}"


def _without_name(view: ClusterView, held: Collection[BookieRef]) -> str:
    lost = [ref for ref in held if ref.bookie_id not in view.formatted and ref not in view.living]
    if not lost:
        return ""
    problem = "ledgers refer to absent bookies that have no cookie in the metadata"
    return f"{problem}: {_names(lost)}; if their directories still exist, {RESTORE_COOKIE}"


def _given_up_and_alive(view: ClusterView) -> str:
    out = [ref for ref in view.living if view.orders.get(ref.bookie_id) is OrderKind.GIVEN_UP]
    return f"alive, but given up, so no entries are stored on it: {_names(out)}; {TAKE_BACK}" if out else ""


def _reachable(view: ClusterView, auditor: LeaseLock | None) -> Finding:
    if auditor is None:
        return facts.REACHABLE.unknown("there is no auditor to call them")
    unreached = {
        ref: auditor.unreachable[ref.bookie_id]
        for ref, one in sorted(view.living.items())
        if ref.bookie_id in auditor.unreachable and auditor.unreachable[ref.bookie_id].is_at(one.address)
    }
    if not unreached:
        return facts.REACHABLE.found("")
    said = "; ".join(_at_address(view.living[ref].address, one.why) for ref, one in unreached.items())
    look = "certificates" if all(_TLS in one.why for one in unreached.values()) else "--advertise"
    return facts.REACHABLE.found(
        f"alive, but unreachable for the auditor: {_names(unreached)} ({said}); check {look}"
    )


def _answering(view: ClusterView, silent: Mapping[str, str] | None) -> Finding:
    if silent is None:
        return facts.ANSWERING.unknown("they have not been called")
    names = sorted(one.bookie_id for one in view.living)
    names_listed = _listed(f"{name} ({silent[name]})" for name in names if name in silent)
    return facts.ANSWERING.found(f"registered, but silent: {names_listed}" if names_listed else "")


def _without_room(view: ClusterView) -> str:
    full = {
        ref.bookie_id: f"{1 - one.disk_bytes_free / max(1, one.disk_bytes_total):.0%} of its disk in use"
        for ref, one in sorted(view.living.items())
        if ref.bookie_id not in view.orders
        and (not one.writable or one.disk_bytes_free < one.disk_bytes_total * (1 - NEARLY_FULL))
    }
    names_listed = _listed(f"{name} ({share})" for name, share in full.items())
    return (
        f"read-only, or nearly full: {names_listed}; free space there, or add bookies" if names_listed else ""
    )


def _silent(auditor: LeaseLock | None) -> str:
    if auditor is None or not auditor.silent_cursors:
        return ""
    problem = "cursors that do not move are ignored, so records that they have not read are deleted"
    return f"{problem}: {_listed(auditor.silent_cursors)}; {SEE_RETENTION}"


def _published(view: ClusterView, fact: Fact) -> str:
    said = {
        ref.bookie_id: one.problems[fact.name]
        for ref, one in sorted(view.living.items())
        if fact.name in one.problems
    }
    return _listed(f"{name}: {why}" for name, why in said.items())


def _at_address(address: str, why: str) -> str:
    return why if address in why else f"{address}: {why}"


def _names(bookies: Iterable[BookieRef]) -> str:
    return _listed(sorted({one.bookie_id for one in bookies}))


def _missing(offloader: OffloaderState | None) -> str:
    if offloader is None or not offloader.missing:
        return ""
    named = _listed(f"{ledger_id} ({why})" for ledger_id, why in sorted(offloader.missing.items()))
    return f"objects of ledgers are missing: {named}; restore them from the object store's versions or from a backup"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - NAMES_MAX
    return ", ".join(every[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
