"""Prometheus metrics of logs, their cursors and their retention, as an auditor sees them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric

from metadata.counting.metric_declarations import MetricTable

from .log_sights import LOGS_REPORTED_MAX
from .retention_rounds import RetentionRounds

LOGS = MetricTable("log", "Logs, as the auditor sees them: in each bookie, and in `autorecovery`")

START = LOGS.gauge(
    "start_position",
    f"First remaining position, of at most {LOGS_REPORTED_MAX} logs.",
    "log",
)
ENDED = LOGS.gauge("ended_position", "Position after the last ended segment.", "log")
CURSOR_POSITION = LOGS.gauge("cursor_position", "Position of a cursor.", "log", "cursor")
LAG_RECORDS = LOGS.gauge(
    "cursor_lag_records",
    "Confirmed records that the cursor's reader has not used yet; not for logs with a password.",
    "log",
    "cursor",
)
LAG_SECONDS = LOGS.gauge(
    "cursor_lag_seconds",
    "Age of the oldest record that the cursor's reader has not used yet; 0 if there is none.",
    "log",
    "cursor",
)
SILENT = LOGS.gauge("silent_cursors", "Cursors that retention ignores because they do not move.")
ROUNDS = LOGS.counter("retention_rounds", "Completed rounds over all logs.")
GONE_RECORDS = LOGS.counter("retention_records", "Records that retention truncated.")
GONE_BYTES = LOGS.counter("retention_bytes", "Bytes of one copy of the records that retention truncated.")
GONE_LEDGERS = LOGS.counter("retention_ledgers", "Deleted ledgers of records that retention truncated.")


def of_logs(rounds: RetentionRounds) -> Iterator[Metric]:
    """Yields the metrics of the last complete round; for a candidate that is not elected, those of the last round that
    it completed while it was elected."""
    yield from _of_positions(rounds)
    totals = rounds.totals
    yield SILENT.of(len(rounds.silent_cursors))
    yield ROUNDS.of(totals.rounds)
    yield GONE_RECORDS.of(totals.records)
    yield GONE_BYTES.of(totals.bytes)
    yield GONE_LEDGERS.of(totals.ledgers)


def _of_positions(rounds: RetentionRounds) -> Iterator[Metric]:
    families = [one.family() for one in (START, ENDED, CURSOR_POSITION, LAG_RECORDS, LAG_SECONDS)]
    start, ended, position, *lags = families
    for log in rounds.logs:
        start.add_metric((log.name,), log.first_position)
        ended.add_metric((log.name,), log.ended_position)
        for cursor in log.cursors:
            position.add_metric((log.name, cursor.name), cursor.record.position)
            for family, value in zip(lags, cursor.lag or (), strict=False):
                family.add_metric((log.name, cursor.name), value)
    yield from families
