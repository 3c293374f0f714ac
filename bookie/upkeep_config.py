"""How much of a bookie's disk and time goes into keeping it in order."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
HOUR, DAY = 3600.0, 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepConfig:
    """The thresholds and periods of Apache BookKeeper, and rates of our own.

    Every `collection_seconds` deleted ledgers are forgotten and segments that hold nothing are deleted. A minor
    compaction empties segments of which less than `minor_live_ratio` is alive, a major one those below
    `major_live_ratio`, and drops frames that the metadata places elsewhere. A scrub reads everything within
    `scrub_seconds`, if the rate allows. `*_bytes_per_second` bounds what each reads; it writes no more than that.

    With `heals` the bookie heals by itself: every `heal_look_seconds` it looks at what is marked. A bookie that is
    absent for `lost_bookie_seconds` counts as lost, and what it held is copied elsewhere; a ledger that is not closed
    and seems to have nobody is closed after `open_ledger_grace_seconds`. Every `audit_seconds` all records are looked
    through, every `stock_seconds` each bookie compares what it holds with what it should hold.
    """

    collection_seconds: float = 600.0
    ledgers_per_second: float = 1000.0
    minor_compaction_seconds: float = HOUR
    minor_live_ratio: float = 0.2
    major_compaction_seconds: float = DAY
    major_live_ratio: float = 0.8
    compaction_bytes_per_second: float = 16 * MIB
    scrub_seconds: float = 7 * DAY
    scrub_bytes_per_second: float = 8 * MIB
    repair_bytes_per_second: float = 64 * MIB
    heals: bool = True
    heal_look_seconds: float = 5.0
    lost_bookie_seconds: float = 600.0
    open_ledger_grace_seconds: float = 60.0
    audit_seconds: float = HOUR
    stock_seconds: float = DAY

    @property
    def lost_bookie_ms(self) -> int:
        return int(self.lost_bookie_seconds * 1000)

    def __post_init__(self) -> None:
        if not 0 <= self.minor_live_ratio <= self.major_live_ratio < 1:
            raise ValueError("a live ratio is a share below 1, and the minor one is not above the major one")
        if min(self.collection_seconds, self.minor_compaction_seconds, self.major_compaction_seconds) <= 0:
            raise ValueError("collections and compactions need some time between them")
        waits = (self.heal_look_seconds, self.audit_seconds, self.stock_seconds)
        if min(waits) <= 0 or self.lost_bookie_seconds < 0 or self.open_ledger_grace_seconds < 0:
            raise ValueError(
                "healing needs some time between its looks, and no bookie is lost before it is gone"
            )
        rates = (self.compaction_bytes_per_second, self.scrub_bytes_per_second, self.repair_bytes_per_second)
        if min(rates) < 64 * 1024 or self.ledgers_per_second <= 0 or self.scrub_seconds <= 0:
            raise ValueError("background work below 64 KiB a second would never come to an end")
