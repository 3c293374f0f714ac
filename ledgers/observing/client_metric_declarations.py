"""The declarations of a client's metrics."""

from __future__ import annotations

from metadata.counting.metric_declarations import MetricTable
from metadata.counting.store_metrics import CALLS_DESCRIPTION, SECONDS_DESCRIPTION

from .error_counters import OTHER

SECONDS = (
    0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 5.0, 60.0,
)  # fmt: skip
"""Histogram buckets: fine from half a millisecond to half a second, then coarse."""

METRICS = MetricTable("client", "A client")

APPEND_SECONDS = METRICS.histogram(
    "append_seconds",
    "Time from taking in a batch of entries until its last entry is confirmed.",
    SECONDS,
    bookkeeper="bookkeeper_client_ADD_ENTRY",
)
APPEND_ENTRIES = METRICS.counter("append_entries", "Confirmed entries.")
APPEND_BYTES = METRICS.counter("append_bytes", "Payload bytes of confirmed entries.")
APPEND_FAILED = METRICS.counter(
    "append_failed_entries", f"Entries whose append failed, by the name of the error, or `{OTHER}`.", "error"
)
PENDING_ENTRIES = METRICS.gauge(
    "pending_entries",
    "Entries of all writers that have been taken in but not yet confirmed.",
    bookkeeper="bookkeeper_client_NUM_PENDING_ADD",
)
PENDING_BYTES = METRICS.gauge(
    "pending_bytes", "Payload bytes of all writers that have been taken in but not yet confirmed."
)
PENDING_LIMIT = METRICS.gauge(
    "pending_limit_bytes",
    "Total limit of all writers' unconfirmed payload bytes; appends wait once their writer reaches its own limit.",
)
WRITERS = METRICS.gauge("writers_open", "Writers that have not ended.")
LANES = METRICS.gauge("lanes_open", "Open lanes of ledgers to bookies.")
READ_SECONDS = METRICS.histogram(
    "read_seconds",
    "Time to fetch and verify a page.",
    SECONDS,
    bookkeeper="bookkeeper_client_READ_ENTRY",
)
READ_ENTRIES = METRICS.counter("read_entries", "Entries read and verified.")
READ_BYTES = METRICS.counter("read_bytes", "Payload bytes read and verified.")
READ_FAILURES = METRICS.counter(
    "read_failures", f"Pages that no replica returned, by the name of the error, or `{OTHER}`.", "error"
)
READS = METRICS.gauge("reads_in_flight", "Pages being fetched.")
CHANGES = METRICS.counter(
    "ensemble_changes",
    "Ensemble changes stored in the metadata.",
    bookkeeper="bookkeeper_client_NUM_ENSEMBLE_CHANGE",
)
FAILED_BOOKIES = METRICS.counter("bookie_failures", "Number of times a bookie failed or fell behind.")
RECOVERIES = METRICS.counter(
    "recoveries",
    "Recoveries of ledgers, by outcome.",
    "outcome",
    bookkeeper="bookkeeper_client_LEDGER_RECOVER_count",
)
LOG_TAKE_OVERS = METRICS.counter("log_take_overs", "Take-overs of logs, by outcome.", "outcome")
LOG_APPEND_RECORDS = METRICS.counter("log_append_records", "Confirmed records of logs.")
LOG_PRODUCER_RECORDS = METRICS.counter(
    "log_producer_records",
    "Records appended with a producer: stored, or repeated and answered with the earlier position.",
    "outcome",
)
LOG_FORGOTTEN_PRODUCERS = METRICS.counter(
    "log_forgotten_producers",
    "Producers that logs have forgotten, because a log had too many or a producer was idle for too long.",
)
LOG_READ_RECORDS = METRICS.counter("log_read_records", "Records of logs that readers have received.")
LOG_CLOCK_AHEAD = METRICS.gauge(
    "clock_ahead_seconds",
    "How far this machine's clock was ahead of half of the bookies' clocks at a log writer's last check; negative if "
    "behind.",
)
CURSOR_COMMITS = METRICS.counter("cursor_commits", "Cursor commits written.")
CONSUMER_POSITION = METRICS.gauge(
    "consumer_position",
    "Position of the last batch that a consumer received, while it runs.",
    "log",
    "cursor",
)
CONSUMER_LAG_SECONDS = METRICS.gauge(
    "consumer_lag_seconds",
    "Age of the oldest record in the last batch of a consumer; 0 if there was no new record for five seconds.",
    "log",
    "cursor",
)
CONSUMER_MISSED_RECORDS = METRICS.counter(
    "consumer_missed_records",
    "Records that were truncated before a consumer used them, by its reaction (`on_truncated`): raise, or continue at "
    "the oldest record.",
    "log",
    "cursor",
    "on_truncated",
)
METADATA_CALLS = METRICS.counter("metadata_calls", CALLS_DESCRIPTION, "call", "outcome")
METADATA_SECONDS = METRICS.counter("metadata_call_seconds", SECONDS_DESCRIPTION, "call")
