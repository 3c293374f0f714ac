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
    """Result of a check. UNKNOWN is neither of the others: the fact has not been measured, or cannot be at the moment."""

    WELL = "well"
    AMISS = "amiss"
    UNKNOWN = "unknown"


NEVER: frozenset[Verdict] = frozenset()
IF_AMISS = frozenset({Verdict.AMISS})
UNLESS_WELL = frozenset({Verdict.AMISS, Verdict.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact. `told` states what is true while the verdict is WELL. `by` and `age`: who measures it, and the maximum
    age of a measurement.

    `not_ready`: verdicts for which clients should not use the daemon. `not_whole`: verdicts for which the cluster is
    not whole, or not known to be. `alerts`: the alerts of docs/running/alerts.yaml that watch it.
    """

    name: str
    told: str
    by: str
    age: str
    not_ready: frozenset[Verdict] = NEVER
    not_whole: frozenset[Verdict] = NEVER
    alerts: tuple[str, ...] = ()

    def found(self, why: str, *, age_seconds: float = 0.0, of: str = "") -> Finding:
        """AMISS if `why` is not empty, else WELL."""
        return Finding(self, Verdict.AMISS if why else Verdict.WELL, why, age_seconds, of)

    def unknown(self, why: str, *, of: str = "") -> Finding:
        return Finding(self, Verdict.UNKNOWN, why, of=of)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a fact, `age_seconds` ago. `why`: the problem and its remedy, or the reason why it is not known.

    `of`: the bookie, if a process may run several.
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
    """The metadata store's finding, from its last reported health; None if it did not answer."""
    if seen is None:
        return METADATA.unknown("the metadata has not said how it is")
    if not seen.is_told:
        return METADATA.unknown("no member of the metadata store says how it is")
    return METADATA.found(seen.refuses, age_seconds=age_seconds)


def why_not_ready(findings: Iterable[Finding]) -> str:
    """Why clients should not use a daemon; "" if they should."""
    return "; ".join(
        f"{one.of}: {one.why}" if one.of else one.why for one in findings if one.keeps_from_ready
    )


def whole(findings: Iterable[Finding]) -> Verdict:
    """The verdict on a whole cluster: AMISS takes precedence over UNKNOWN."""
    verdicts = {one.verdict for one in findings if one.keeps_from_whole}
    return next((one for one in (Verdict.AMISS, Verdict.UNKNOWN) if one in verdicts), Verdict.WELL)


_EACH_TIME = "each time that it is asked"
_A_COUNT = "the last count of all ledgers"

# --- of a daemon -------------------------------------------------------------------------------

STARTED = Fact(
    "started",
    "The daemon has started.",
    "itself",
    _EACH_TIME,
    not_ready=IF_AMISS,
    alerts=("BookieGone",),
)
LOG = Fact(
    "log",
    "The bookie's log takes records.",
    "the bookie, with each record",
    _EACH_TIME,
    not_ready=IF_AMISS,
    alerts=("BookieGone", "BookieDiskHangs"),
)
REGISTERED = Fact(
    "registered",
    "Clients find the bookie or journal node: the lease of its name is held. Of a cluster: every bookie is registered "
    "that is not given up.",
    "the daemon, with each renewal of its lease; of a cluster the metadata",
    "a lease",
    not_ready=IF_AMISS,
    not_whole=IF_AMISS,
    alerts=("NotRegistered", "BookieGone"),
)
CERTIFICATE = Fact(
    "certificate",
    "The certificate has not run out.",
    "the bookie, which says so in its registration",
    _EACH_TIME,
    not_ready=IF_AMISS,
    not_whole=IF_AMISS,
    alerts=("CertificateRunsOut", "CertificateAlmostOut"),
)
CERTIFICATE_TWO_DAYS = Fact(
    "certificate_two_days",
    "The certificate is good for two days more, or has run out.",
    "the bookie, which says so in its registration",
    _EACH_TIME,
    not_whole=IF_AMISS,
    alerts=("CertificateAlmostOut",),
)
CERTIFICATE_TWO_WEEKS = Fact(
    "certificate_two_weeks",
    "The certificate is good for two weeks more, or for less than two days.",
    "the bookie, which says so in its registration",
    _EACH_TIME,
    alerts=("CertificateRunsOut",),
)
CERTIFICATE_DAYS = {CERTIFICATE: 0, CERTIFICATE_TWO_DAYS: 2, CERTIFICATE_TWO_WEEKS: 14}
"""For each of these facts, the days for which a certificate is valid at least while the fact is well."""
METADATA = Fact(
    "metadata",
    "The metadata takes changes.",
    "the daemon; of a cluster whoever is asked",
    "10 s",
    not_ready=IF_AMISS,
    not_whole=IF_AMISS,
    alerts=("MetadataRefuses", "MetadataFails"),
)
WRITABLE = Fact(
    "writable",
    "The bookie takes new entries: there is space, and it is not drained.",
    "the bookie, with each look at its disk",
    "a look at the disk",
    not_ready=IF_AMISS,
    alerts=("BookieReadOnly", "BookieDiskFills"),
)
READABLE = Fact(
    "readable",
    "The last scrub of the bookie could read all of its log, or repaired it from other bookies.",
    "the bookie's scrub, which says so in its registration",
    "the last scrub",
    not_whole=IF_AMISS,
    alerts=("BookieDamage",),
)

# --- of a cluster --------------------------------------------------------------------------------

COPIES = Fact(
    "copies",
    "Every copy of every ledger is where it should be.",
    "whoever counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("FragmentsNotWhole", "HealingFails"),
)
CLOSED = Fact(
    "closed",
    "Every ledger that is open has somebody who closes it.",
    "whoever counts all ledgers",
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
    "The metadata is no older copy of itself that nobody has accepted.",
    "bookies, with each renewal; it stands in the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
)
FORGOTTEN = Fact(
    "forgotten",
    "Nothing refers to a bookie that was given up.",
    "whoever counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("FragmentsNotWhole",),
)
SPACE = Fact(
    "space",
    "At least one bookie that lives takes new entries.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
    alerts=("BookieReadOnly",),
)
COOKIES = Fact(
    "cookies",
    "Every bookie that lives has a cookie in the metadata, and so starts again.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
)
NAMED = Fact(
    "named",
    "Every absent bookie that ledgers refer to has a cookie in the metadata.",
    "whoever counts all ledgers",
    _A_COUNT,
    not_whole=UNLESS_WELL,
    alerts=("FragmentsNotWhole",),
)
BELONGING = Fact(
    "belonging",
    "No bookie that lives is given up.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
)
REACHABLE = Fact(
    "reachable",
    "The auditor reaches every bookie that lives at the address that it advertises.",
    "the auditor, which says so in the metadata",
    "an audit",
    not_whole=IF_AMISS,
)
ANSWERING = Fact(
    "answering",
    "Every bookie that lives answers.",
    "the console, while somebody looks on",
    "a look at the bookies",
    not_whole=IF_AMISS,
    alerts=("BookieGone",),
)
ROOM = Fact(
    "room",
    "No disk of a bookie that lives is nearly full, and none is read-only.",
    "the bookie, which says so in its registration",
    "a lease",
    alerts=("BookieDiskFills", "BookieReadOnly"),
)
BRAKE = Fact(
    "brake",
    "So few bookies are absent that what they held is copied.",
    "the metadata",
    _EACH_TIME,
    not_whole=IF_AMISS,
    alerts=("BookieGone",),
)
CURSORS = Fact(
    "cursors",
    "Every cursor that counts for a log's retention moves, or has nothing to read.",
    "the auditor, which says so in the metadata",
    "a round of retention",
    alerts=("LogCursorSilent",),
)
OBJECTS = Fact(
    "objects",
    "The objects of ledgers in an object store are there.",
    "the offloader, which says so in the metadata",
    "some rounds of the offloader",
    not_whole=IF_AMISS,
)
SAFE = Fact(
    "safe",
    "No member of the metadata store is of a version that may lose confirmed writes.",
    "whoever is asked",
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
"""Facts that only the bookie itself can measure: it publishes those that are amiss in its registration."""
