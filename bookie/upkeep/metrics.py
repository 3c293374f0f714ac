"""Prometheus metrics of a bookie's upkeep, of an auditor, and of metadata calls, read at scrape time."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from metadata.counting.counting_store import CountingStore

from .healing.auditor import WHOLE, Auditor
from .mending.need import Reason
from .reports import ScrubReport
from .upkeep import Upkeep


def of_upkeep(upkeep: Upkeep) -> Iterator[Metric]:
    """Metrics of all background work of one bookie."""
    yield gauge("bookledger_bookie_upkeep_suspended", "1 while upkeep is suspended.", upkeep.is_suspended)
    yield from _of_scrubs(upkeep)
    yield from _of_rounds(upkeep)
    yield from _of_healing(upkeep)
    yield from of_auditor(upkeep.auditor)


def _of_scrubs(upkeep: Upkeep) -> Iterator[Metric]:
    last, now = upkeep.scrubber.last or ScrubReport(), upkeep.scrubber.under_way
    yield gauge("bookledger_bookie_scrub_bytes", "Read by the last whole scrub.", last.bytes_read)
    yield gauge("bookledger_bookie_scrub_damaged", "Damage that it found in the log.", last.damaged)
    yield gauge(
        "bookledger_bookie_scrub_frames_damaged", "Frames that it could not read.", last.frames_damaged
    )
    yield gauge("bookledger_bookie_scrub_running", "1 while a scrub is under way.", now is not None)
    done, whole = now or (0, 0)
    yield gauge(
        "bookledger_bookie_scrub_segments_done", "Files of the log that the scrub under way has read.", done
    )
    yield gauge("bookledger_bookie_scrub_segments", "Files of the log that it is to read.", whole)


def _of_rounds(upkeep: Upkeep) -> Iterator[Metric]:
    done = upkeep.totals
    rounds = CounterMetricFamily(
        "bookledger_bookie_upkeep_rounds",
        "Rounds of collection and compaction that ended.",
        labels=["outcome"],
    )
    for outcome, count in done.rounds.items():
        rounds.add_metric([outcome], count)
    yield rounds
    yield counter(
        "bookledger_bookie_collected_ledgers", "Deleted ledgers that were forgotten.", done.ledgers_forgotten
    )
    yield counter(
        "bookledger_bookie_collected_frames",
        "Frames dropped for being placed elsewhere.",
        done.frames_dropped,
    )
    yield gauge(
        "bookledger_bookie_unlisted_ledgers", "Ledgers here that the metadata does not know.", done.unlisted
    )
    yield counter(
        "bookledger_bookie_compaction_moved_bytes", "Moved out of thin files of the log.", done.bytes_moved
    )
    yield counter(
        "bookledger_bookie_compaction_freed_bytes", "Freed by deleting files of the log.", done.bytes_freed
    )
    yield counter(
        "bookledger_bookie_compaction_segments", "Files of the log that were deleted.", done.segments_dropped
    )


def _of_healing(upkeep: Upkeep) -> Iterator[Metric]:
    repaired, worker = upkeep.repaired, upkeep.worker
    yield counter(
        "bookledger_bookie_repaired_entries", "Entries fetched from other bookies.", repaired.entries
    )
    yield counter("bookledger_bookie_repaired_bytes", "Bytes of them.", repaired.bytes)
    yield counter(
        "bookledger_bookie_healed_ledgers", "Ledgers of which this bookie made copies.", worker.ledgers_healed
    )
    yield counter(
        "bookledger_bookie_healing_failures", "Tries to heal a ledger that failed.", worker.failures
    )
    yield gauge(
        "bookledger_bookie_healing_waiting_ledgers",
        "Ledgers to be tried again later, here or by others.",
        worker.waiting,
    )
    yield counter(
        "bookledger_bookie_recoveries", "Ledgers recovered because nobody else did it.", worker.ledgers_closed
    )


def of_auditor(auditor: Auditor) -> Iterator[Metric]:
    """Metrics of the last audit; of a candidate that is not elected, the last one while it was."""
    last = auditor.last
    yield gauge(
        "bookledger_auditor_elected", "1 while this process is the cluster's auditor.", auditor.is_elected
    )
    yield counter("bookledger_auditor_audits", "Looks at all records that ended.", auditor.audits)
    yield gauge("bookledger_auditor_audit_seconds", "What the last look took.", auditor.audit_seconds)
    yield gauge("bookledger_auditor_ledgers", "Ledgers that it saw.", last.ledgers)
    yield gauge(
        "bookledger_auditor_ledgers_left_behind",
        "Ledgers not closed that seem to have no writer.",
        last.left_behind,
    )
    states = GaugeMetricFamily(
        "bookledger_auditor_fragments",
        "Fragments that it saw, by what their worst copy lacks.",
        labels=["state"],
    )
    for state in (WHOLE, *(reason.name.lower() for reason in Reason)):
        states.add_metric([state], last.states[state])
    yield states


def of_metadata(store: CountingStore) -> Iterator[Metric]:
    """Metrics of this process's calls to the metadata."""
    calls = CounterMetricFamily(
        "bookledger_metadata_calls",
        "Calls to the metadata store, by name and how they ended.",
        labels=["call", "outcome"],
    )
    for (call, outcome), count in store.counts.calls().items():
        calls.add_metric([call, outcome], count)
    seconds = CounterMetricFamily(
        "bookledger_metadata_call_seconds", "What calls of this name took together.", labels=["call"]
    )
    for call, taken in store.counts.seconds().items():
        seconds.add_metric([call], taken)
    yield from (calls, seconds)


class MetadataMetrics(Collector):
    """Metrics of a process that calls the metadata, and has no other metrics here."""

    def __init__(self, store: CountingStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        yield from of_metadata(self._store)


class AuditorMetrics(Collector):
    """Metrics of a standalone auditor. Belongs to its event loop."""

    def __init__(self, auditor: Auditor, store: CountingStore) -> None:
        self._auditor = auditor
        self._store = store

    def describe(self) -> list[Metric]:
        """Empty: registration must not collect from an auditor that is not complete yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from of_auditor(self._auditor)
        yield from of_metadata(self._store)


def gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def counter(name: str, told: str, value: float) -> Metric:
    return CounterMetricFamily(name, told, value=value)
