"""The facts by which daemons and clusters are judged, each declared once, and the findings about them.

Every interface uses this list: `/readyz` and gRPC's health check, `cluster status` and its exit code, the API, the
console, metrics and alerts. The table in docs/metrics.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ..store import StoreHealth


class Verdict(StrEnum):
    """Result of a check. UNKNOWN: the fact has not been measured, or cannot be measured at the moment."""

    WELL = "well"
    AMISS = "amiss"
    UNKNOWN = "unknown"


NEVER: frozenset[Verdict] = frozenset()
IF_AMISS = frozenset({Verdict.AMISS})
UNLESS_WELL = frozenset({Verdict.AMISS, Verdict.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact. `description` states what is true while the verdict is WELL. `by`: who measures the fact. `age`: the
    maximum age of a measurement.

    `not_ready`: the verdicts for which clients should not use the daemon. `not_whole`: the verdicts for which the
    cluster is not whole, or may not be. `alerts`: the alerts in docs/running/alerts.yaml that watch this fact.
    """

    name: str
    description: str
    by: str
    age: str
    not_ready: frozenset[Verdict] = NEVER
    not_whole: frozenset[Verdict] = NEVER
    alerts: tuple[str, ...] = ()

    def found(self, why: str, *, age_seconds: float = 0.0, of: str = "") -> Finding:
        """Returns a finding with the verdict AMISS if `why` is not empty, else WELL."""
        return Finding(self, Verdict.AMISS if why else Verdict.WELL, why, age_seconds, of)

    def unknown(self, why: str, *, of: str = "") -> Finding:
        return Finding(self, Verdict.UNKNOWN, why, of=of)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a fact, reached `age_seconds` ago. `why`: the problem and its remedy, or why the verdict is
    unknown.

    `of`: the bookie concerned, in a process that may run several bookies.
    """

    fact: Fact
    verdict: Verdict
    why: str = ""
    age_seconds: float = 0.0
    of: str = ""

    @property
    def keeps_from_ready(self) -> bool:
        return self.verdict in self.fact.not_ready

    @property
    def keeps_from_whole(self) -> bool:
        return self.verdict in self.fact.not_whole


def of_store(seen: StoreHealth | None, *, age_seconds: float = 0.0) -> Finding:
    """Returns the finding about the metadata store, based on its last reported health; `seen` is None if the store did
    not answer."""
    if seen is None:
        return METADATA.unknown("the metadata has not reported its health")
    if not seen.is_reported:
        return METADATA.unknown("no member of the metadata store reports its health")
    return METADATA.found(seen.refuses, age_seconds=age_seconds)


def why_not_ready(findings: Iterable[Finding]) -> str:
    """Returns the reasons why clients should not use a daemon; "" if there are none."""
    return "; ".join(
        f"{one.of}: {one.why}" if one.of else one.why for one in findings if one.keeps_from_ready
    )


def whole(findings: Iterable[Finding]) -> Verdict:
    """Returns the verdict on whether the cluster is whole: AMISS takes precedence over UNKNOWN."""
    verdicts = {one.verdict for one in findings if one.keeps_from_whole}
    return next((one for one in (Verdict.AMISS, Verdict.UNKNOWN) if one in verdicts), Verdict.WELL)


_EACH_TIME = "each request"
_A_COUNT = "the last count of all ledgers"

# --- facts about a daemon -------------------------------------------------------------------------------

STARTED = Fact(
    "started",
    "The daemon has started.",
    "the daemon",
    _EACH_TIME,
    not_ready=IF_AMISS,
    alerts=("BookieGone",),
)
LOG = Fact(
    "log",
    "The bookie's log accepts records.",
    "the bookie, at each record",
    _EACH_TIME,
    not_ready=IF_AMISS,
    alerts=("BookieGone", "BookieDiskHangs"),
)
REGISTERED = Fact(
    "registered",
    "Clients can find the bookie or journal node: it holds the lease on its name. For a cluster: every bookie that was "
    "not given up is registered.",
    "the daemon, at each renewal of its lease; for a cluster, the metadata",
    "a lease",
    not_ready=IF_AMISS,
    not_whole=IF_AMISS,
    alerts=("NotRegistered", "BookieGone"),
)
CERTIFICATE = Fact(
    "certificate",
    "The certificate has not expired.",
    "the bookie, in its registration",
    _EACH_TIME,
    not_ready=IF_AMISS,
    not_whole=IF_AMISS,
    alerts=("CertificateRunsOut", "CertificateAlmostOut"),
)
CERTIFICATE_TWO_DAYS = Fact(
    "certificate_two_days",
    "The certificate is valid for at least two more days, or has expired.",
    "the bookie, in its registration",
    _EACH_TIME,
    not_whole=IF_AMISS,
    alerts=("CertificateAlmostOut",),
)
CERTIFICATE_TWO_WEEKS = Fact(
    "certificate_two_weeks",
    "The certificate is valid for at least two more weeks, or for less than two days.",
    "the bookie, in its registration",
    _EACH_TIME,
    alerts=("CertificateRunsOut",),
)
CERTIFICATE_DAYS = {CERTIFICATE: 0, CERTIFICATE_TWO_DAYS: 2, CERTIFICATE_TWO_WEEKS: 14}
"""For each of these facts, the minimum number of days that a certificate must still be valid for the verdict WELL."""
METADATA = Fact(
    "metadata",
    "The metadata store accepts changes.",
    "the daemon; for a cluster, the process that is asked",
    "10 s",
    not_ready=IF_AMISS,
    not_whole=IF_AMISS,
    alerts=("MetadataRefuses", "MetadataFails"),
)
WRITABLE = Fact(
    "writable",
    "The bookie accepts new entries: it has space, and is not drained.",
    "the bookie, at each check of its disk",
    "a check of the disk",
    not_ready=IF_AMISS,
    alerts=("BookieReadOnly", "BookieDiskFills"),
)
READABLE = Fact(
    "readable",
    "The bookie's last scrub could read its whole log, or repaired it from other bookies.",
    "the bookie's scrub, in its registration",
    "the last scrub",
    not_whole=IF_AMISS,
    alerts=("BookieDamage",),
)

# --- facts about a cluster --------------------------------------------------------------------------------

COPIES = Fact(
    "copies",
    "Every copy of every ledger is where it should be.",
    "the process that counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("FragmentsNotWhole", "HealingFails"),
)
CLOSED = Fact(
    "closed",
    "Every open ledger has a process that will close it.",
    "the process that counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("LedgersLeftBehind",),
)
AUDITOR = Fact(
    "auditor",
    "There is an auditor.",
    "the metadata",
    "a lease",
    not_whole=IF_AMISS,
    alerts=("NoAuditor", "AuditsDoNotEnd"),
)
ACCEPTED = Fact(
    "accepted",
    "The metadata is not an older copy of itself that no operator has accepted.",
    "bookies, at each renewal, in the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
)
FORGOTTEN = Fact(
    "forgotten",
    "Nothing refers to a bookie that was given up.",
    "the process that counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("FragmentsNotWhole",),
)
SPACE = Fact(
    "space",
    "At least one live bookie accepts new entries.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
    alerts=("BookieReadOnly",),
)
COOKIES = Fact(
    "cookies",
    "Every live bookie has a cookie in the metadata, without which it would not start again.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
)
NAMED = Fact(
    "named",
    "Every absent bookie that ledgers refer to has a cookie in the metadata.",
    "the process that counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("FragmentsNotWhole",),
)
BELONGING = Fact(
    "belonging",
    "No live bookie is marked as given up.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
)
REACHABLE = Fact(
    "reachable",
    "The auditor can reach every live bookie at its advertised address.",
    "the auditor, in the metadata",
    "an audit",
    not_whole=IF_AMISS,
)
ANSWERING = Fact(
    "answering",
    "Every live bookie answers.",
    "the console, while it is open in a browser",
    "a check of the bookies",
    not_whole=IF_AMISS,
    alerts=("BookieGone",),
)
ROOM = Fact(
    "room",
    "No live bookie is read-only or has a nearly full disk.",
    "the bookie, in its registration",
    "a lease",
    alerts=("BookieDiskFills", "BookieReadOnly"),
)
BRAKE = Fact(
    "brake",
    "The number of absent bookies is low enough for their ledgers to be re-replicated.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
    alerts=("BookieGone",),
)
CURSORS = Fact(
    "cursors",
    "Every cursor that counts for a log's retention is advancing, or has no unread records.",
    "the auditor, in the metadata",
    "a round of retention",
    alerts=("LogCursorSilent",),
)
OBJECTS = Fact(
    "objects",
    "The objects of ledgers in an object store exist.",
    "the offloader, in the metadata",
    "some rounds of the offloader",
    not_whole=IF_AMISS,
    alerts=("ObjectsMissing",),
)
SAFE = Fact(
    "safe",
    "No member of the metadata store runs a version that may lose confirmed writes.",
    "the process that is asked",
    _EACH_TIME,
)

OF_A_BOOKIE = (LOG, REGISTERED, *CERTIFICATE_DAYS, METADATA, WRITABLE, READABLE)
OF_A_CLUSTER = (
    COPIES,
    CLOSED,
    FORGOTTEN,
    NAMED,
    METADATA,
    AUDITOR,
    ACCEPTED,
    REGISTERED,
    BRAKE,
    SPACE,
    COOKIES,
    BELONGING,
    REACHABLE,
    ANSWERING,
    ROOM,
    *CERTIFICATE_DAYS,
    READABLE,
    CURSORS,
    OBJECTS,
    SAFE,
)
FACTS = tuple(dict.fromkeys((STARTED, *OF_A_BOOKIE, *OF_A_CLUSTER)))
PUBLISHED = (*CERTIFICATE_DAYS, READABLE)
"""Facts that only the bookie itself can measure. It publishes those with the verdict AMISS in its registration."""
