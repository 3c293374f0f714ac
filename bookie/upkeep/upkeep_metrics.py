"""Prometheus metrics of a bookie's upkeep, of an auditor, and of metadata calls, read at scrape time."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metadata.counting.counting_store import Counts
from metadata.counting.metric_declarations import MetricTable
from metadata.counting.store_metrics import of_counts
from metadata.records.ledger_record import LedgerState

from .healing.auditor import Auditor
from .healing.ledger_counts import Condition
from .logs.auditor_log_metrics import of_logs
from .reports import ScrubReport
from .upkeep import Upkeep

UPKEEP = MetricTable("bookie", "A bookie: its upkeep")

SUSPENDED = UPKEEP.gauge("upkeep_suspended", "1 while upkeep is suspended.")
ROUNDS = UPKEEP.counter("upkeep_rounds", "Completed rounds of collection and compaction.", "outcome")
COLLECTED_LEDGERS = UPKEEP.counter(
    "collected_ledgers", "Deleted ledgers that were forgotten.", bookkeeper="bookie_DELETED_LEDGER_COUNT"
)
COLLECTED_FRAMES = UPKEEP.counter("collected_frames", "Frames dropped because they are placed elsewhere.")
UNLISTED = UPKEEP.gauge("unlisted_ledgers", "Ledgers on this bookie that are missing from the metadata.")
MOVED_BYTES = UPKEEP.counter(
    "compaction_moved_bytes", "Bytes that compaction moved out of mostly dead segments of the log."
)
FREED_BYTES = UPKEEP.counter(
    "compaction_freed_bytes",
    "Bytes freed by deleting segments of the log.",
    bookkeeper="bookie_RECLAIMED_COMPACTION_SPACE_BYTES + bookie_RECLAIMED_DELETION_SPACE_BYTES",
)
SEGMENTS = UPKEEP.counter("compaction_segments", "Segments of the log that were deleted.")
SCRUBS = UPKEEP.counter("scrubs", "Completed scrubs of the entire disk.", "outcome")
SCRUB_BYTES = UPKEEP.gauge("scrub_bytes", "Bytes that the last complete scrub read.")
SCRUB_DAMAGED = UPKEEP.gauge(
    "scrub_damaged", "Damaged stretches of the log that the last complete scrub found."
)
SCRUB_UNREAD = UPKEEP.gauge(
    "scrub_segments_unread", "Segments of the log that the last complete scrub could not read."
)
SCRUB_FRAMES = UPKEEP.gauge("scrub_frames_damaged", "Frames that the last complete scrub could not read.")
SCRUB_REPAIRED = UPKEEP.gauge(
    "scrub_repaired_entries", "Entries that the last complete scrub fetched from other bookies."
)
SCRUB_RUNNING = UPKEEP.gauge("scrub_running", "1 while a scrub is running.")
SCRUB_DONE = UPKEEP.gauge("scrub_segments_done", "Segments of the log that the running scrub has read.")
SCRUB_SEGMENTS = UPKEEP.gauge("scrub_segments", "Segments of the log that the running scrub has to read.")
MARKED = UPKEEP.gauge(
    "healing_marked_ledgers",
    "Ledgers marked as under-replicated when this bookie last read the marks.",
)
HEALED = UPKEEP.counter(
    "healed_ledgers",
    "Ledgers of which this bookie made copies.",
    bookkeeper="replication_worker_NUM_FULL_OR_PARTIAL_LEDGERS_REPLICATED",
)
FAILURES = UPKEEP.counter("healing_failures", "Failed attempts to heal a ledger.")
WAITING = UPKEEP.gauge("healing_waiting_ledgers", "Ledgers to be retried later, by this bookie or by others.")
REPAIRED_ENTRIES = UPKEEP.counter(
    "repaired_entries",
    "Entries fetched from other bookies, for healing and repair.",
    bookkeeper="replication_worker_NUM_ENTRIES_WRITTEN",
)
REPAIRED_BYTES = UPKEEP.counter(
    "repaired_bytes",
    "Bytes fetched from other bookies, for healing and repair.",
    bookkeeper="replication_worker_NUM_BYTES_WRITTEN",
)
RECOVERIES = UPKEEP.counter("recoveries", "Ledgers recovered because their writers were gone.")

AUDIT = MetricTable("auditor", "The auditor: in each bookie, and in `autorecovery`")

ELECTED = AUDIT.gauge(
    "elected", "1 while this process is the cluster's auditor; other processes show their last counts."
)
AUDITS = AUDIT.counter("audits", "Completed audits of all records.")
AUDIT_SECONDS = AUDIT.gauge(
    "audit_seconds", "Duration of the last audit.", bookkeeper="auditor_AUDIT_BOOKIES_TIME"
)
LEDGERS = AUDIT.gauge("ledgers", "Ledgers in the last audit, by state.", "state")
LEFT_BEHIND = AUDIT.gauge("ledgers_left_behind", "Ledgers that are not closed and seem to have no writer.")
UNDER_REPLICATED = AUDIT.gauge(
    "under_replicated_ledgers",
    "Ledgers that the last audit marked for healing, or found correctly marked.",
    bookkeeper="auditor_NUM_UNDER_REPLICATED_LEDGERS",
)
FRAGMENTS = AUDIT.gauge(
    "fragments", "Fragments in the last audit, by the condition of their worst copy.", "state"
)


def of_upkeep(upkeep: Upkeep) -> Iterator[Metric]:
    """Yields the metrics of all background work of one bookie."""
    yield SUSPENDED.of(upkeep.is_suspended)
    yield from _of_scrubs(upkeep)
    yield from _of_rounds(upkeep)
    yield from _of_healing(upkeep)
    yield from of_auditor(upkeep.auditor)


def _of_scrubs(upkeep: Upkeep) -> Iterator[Metric]:
    scrubber = upkeep.scrubber
    last, (done, whole) = scrubber.last or ScrubReport(), scrubber.under_way or (0, 0)
    passes = SCRUBS.family()
    for outcome, count in scrubber.passes.items():
        passes.add_metric((outcome,), count)
    yield passes
    yield SCRUB_BYTES.of(last.bytes_read)
    yield SCRUB_DAMAGED.of(last.damaged)
    yield SCRUB_UNREAD.of(len(last.unread))
    yield SCRUB_FRAMES.of(last.frames_damaged)
    yield SCRUB_REPAIRED.of(last.entries_repaired)
    yield SCRUB_RUNNING.of(scrubber.under_way is not None)
    yield SCRUB_DONE.of(done)
    yield SCRUB_SEGMENTS.of(whole)


def _of_rounds(upkeep: Upkeep) -> Iterator[Metric]:
    done, rounds = upkeep.totals, ROUNDS.family()
    for outcome, count in done.rounds.items():
        rounds.add_metric((outcome,), count)
    yield rounds
    yield COLLECTED_LEDGERS.of(done.ledgers_forgotten)
    yield COLLECTED_FRAMES.of(done.frames_dropped)
    yield UNLISTED.of(done.unlisted)
    yield MOVED_BYTES.of(done.bytes_moved)
    yield FREED_BYTES.of(done.bytes_freed)
    yield SEGMENTS.of(done.segments_dropped)


def _of_healing(upkeep: Upkeep) -> Iterator[Metric]:
    repaired, worker = upkeep.repaired, upkeep.worker
    yield REPAIRED_ENTRIES.of(repaired.entries)
    yield REPAIRED_BYTES.of(repaired.bytes)
    yield MARKED.of(worker.marked)
    yield HEALED.of(worker.ledgers_healed)
    yield FAILURES.of(worker.failures)
    yield WAITING.of(worker.waiting)
    yield RECOVERIES.of(worker.ledgers_closed)


def of_auditor(auditor: Auditor) -> Iterator[Metric]:
    """Yields the metrics of the last audit; for a candidate that is not elected, those of the last audit that it
    completed while it was elected."""
    last = auditor.last
    yield ELECTED.of(auditor.is_elected)
    yield AUDITS.of(auditor.audits)
    yield AUDIT_SECONDS.of(auditor.audit_seconds)
    ledgers, fragments = LEDGERS.family(), FRAGMENTS.family()
    for state in LedgerState:
        ledgers.add_metric((state.value,), last.ledgers[state])
    for condition in Condition:
        fragments.add_metric((condition.value,), last.fragments[condition])
    yield from (ledgers, fragments)
    yield LEFT_BEHIND.of(last.left_behind)
    yield UNDER_REPLICATED.of(last.to_heal)
    yield from of_logs(auditor.retention)


class AuditorMetrics(Collector):
    """Metrics of a standalone auditor. Belongs to its event loop."""

    def __init__(self, auditor: Auditor, counts: Counts) -> None:
        self._auditor = auditor
        self._counts = counts

    def describe(self) -> list[Metric]:
        """Returns nothing, because registration must not collect from an auditor that is not yet fully constructed."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from of_auditor(self._auditor)
        yield from of_counts(self._counts)
