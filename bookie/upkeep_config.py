"""Configures a bookie's background work: garbage collection, compaction, scrubbing, re-replication."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import set_by_option, tunable

MIB = 1024 * 1024
HOUR, DAY = 3600.0, 86400.0

STOCK_SECONDS = DAY
"""Interval at which a bookie compares the copies it holds with those it should hold; each comparison reads the whole
index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepConfig:
    """Periods, thresholds and rate limits of background work; the thresholds and periods are Apache BookKeeper's.

    Every `collection_seconds` the bookie forgets deleted ledgers and deletes segments without live data. A minor
    compaction empties segments whose share of live data is below `minor_live_ratio`, a major one those below
    `major_live_ratio`; a major one also drops frames that the metadata places elsewhere. A scrub reads everything
    within `scrub_seconds`, if the rate allows. `*_bytes_per_second` limits the reads of each kind of work; the writes
    of that work are no faster.

    With `heals`, the bookie re-replicates the ledgers that are marked. A bookie that is absent for
    `lost_bookie_seconds` counts as lost, and its entries are copied to other bookies. An open ledger that seems to have
    no writer is closed after `open_ledger_grace_seconds`. Every `reach_seconds` the auditor calls each bookie at the
    address it advertises, and every `audit_seconds` it checks all records. Every `stock_seconds`, which is not a
    setting, each bookie compares its index with the metadata.
    """

    collection_seconds: float = set_by_option(600.0, "collect-every in [bookie.run]")
    minor_compaction_seconds: float = tunable(
        HOUR, "Interval of minor compactions, which empty segments with little live data.", 60, 10 * DAY
    )
    minor_live_ratio: float = tunable(
        0.2, "A minor compaction empties segments of which less than this share is live.", 0, 0.99
    )
    major_compaction_seconds: float = tunable(
        DAY, "Interval of major compactions, which also empty segments above minor_live_ratio.", 60, 100 * DAY
    )
    major_live_ratio: float = tunable(
        0.8,
        "A major compaction empties segments of which less than this share is live; not below minor_live_ratio.",
        0,
        0.99,
    )
    compaction_bytes_per_second: float = set_by_option(16 * MIB, "compaction-rate in [bookie.run]")
    scrub_seconds: float = tunable(
        7 * DAY, "Time within which a scrub reads everything, if the rate allows.", 60, 365 * DAY
    )
    scrub_bytes_per_second: float = set_by_option(8 * MIB, "scrub-rate in [bookie.run]")
    repair_bytes_per_second: float = tunable(
        64 * MIB, "Rate at which the bookie reads, and writes, copies when it heals.", 64 * 1024, 2**40
    )
    heals: bool = set_by_option(True, "heal in [bookie.run]")
    lost_bookie_seconds: float = set_by_option(600.0, "lost-after in [bookie.run]")
    open_ledger_grace_seconds: float = tunable(
        60.0, "How long a ledger that seems to have no writer is left open.", 0, DAY
    )
    reach_seconds: float = tunable(
        10.0, "How often the auditor calls each bookie at the address it advertises; 0 for never.", 0, DAY
    )
    audit_seconds: float = tunable(HOUR, "How often the auditor checks all records.", 1, 10 * DAY)
    tombstone_seconds: float = tunable(
        HOUR,
        "Minimum time for which the tombstone of a deleted ledger is kept; a Spark stream that was stopped for longer "
        "cannot determine which ledgers it has missed.",
        60,
        100 * DAY,
    )
    stock_seconds: float = STOCK_SECONDS

    @property
    def lost_bookie_ms(self) -> int:
        return int(self.lost_bookie_seconds * 1000)

    def __post_init__(self) -> None:
        if not 0 <= self.minor_live_ratio <= self.major_live_ratio < 1:
            raise ValueError("live ratios must be below 1, and the minor one must not be above the major one")
        if min(self.collection_seconds, self.minor_compaction_seconds, self.major_compaction_seconds) <= 0:
            raise ValueError("collections and compactions need an interval above 0")
        if (
            self.audit_seconds <= 0
            or self.stock_seconds <= 0
            or self.lost_bookie_seconds < 0
            or self.open_ledger_grace_seconds < 0
        ):
            raise ValueError(
                "audits need an interval above 0, and lost-after and the grace of open ledgers must not be negative"
            )
        rates = (self.compaction_bytes_per_second, self.scrub_bytes_per_second, self.repair_bytes_per_second)
        if min(rates) < 64 * 1024 or self.scrub_seconds <= 0:
            raise ValueError("background work below 64 KiB a second would never finish")
