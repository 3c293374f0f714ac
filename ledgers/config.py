"""A client's settings, validated once. All limits of the client are defined here, with their trade-offs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bookie.wire import ENTRY_BYTES_MAX
from metadata.settings import settings_file as settings_file
from metadata.settings.tunable import SECONDS_MAX, tunable

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from bookie.wire.data.in_process import OwnBookie

MIB = 1024 * 1024

PAGE_BYTES = 1 * MIB
"""Size of a page requested from a bookie. Each message has a fixed cost regardless of its size, but a larger page
delays the pages of other readers."""

RECOVERY_TRIES_MAX = 3
"""Maximum number of times a recovery asks a bookie that does not answer."""

RECOVERY_ATTEMPTS_MAX = 50
"""Maximum number of times a recovery starts over because another client was faster. Each time, one of the clients has
made progress."""

RETRY_REPLACEMENT_SECONDS = 1.0
"""Delay before a writer that has found no replacement bookie looks for one again."""

FAILED_BOOKIE_SECONDS = 30.0
"""How long a failed bookie is used only as a last resort; a restart takes less time."""

IDLE_LAC_SECONDS = 0.05
"""Delay after which an idle writer reports that its last entries are confirmed; tailing readers wait for this report.
"""

LONG_POLL_SECONDS = 10.0
"""How long a long-poll request may wait at a bookie, which allows at most one minute."""

CLOSE_DRAIN_SECONDS_MAX = 2.0
"""Maximum time a recovery waits for the slowest copies of the entries it wrote back."""

QUARANTINE_SECONDS = 1800.0
"""How long a bookie that keeps failing is used only as a last resort."""

PLAIN_TEXT = ""
"""The value of `certificates` that disables TLS, whatever the environment specifies."""

ORDERED = (
    ("append_seconds_max", "append_quorum_seconds_max"),
    ("speculative_read_seconds", "read_seconds_max"),
    ("page_bytes", "read_ahead_bytes_max"),
    ("failed_bookie_seconds", "quarantine_seconds"),
)
"""Pairs of settings. If the first were larger than the second, the first would never take effect."""

BYTES = (
    "pending_bytes_max",
    "lane_backlog_bytes_max",
    "window_bytes_max",
    "page_bytes",
    "read_ahead_bytes_max",
)
COUNTS = (
    "fault_domains_min",
    "read_ahead_pages",
    "recovery_tries_max",
    "recovery_attempts_max",
)
WAITS = (
    "append_seconds_max",
    "append_quorum_seconds_max",
    "read_seconds_max",
    "retry_replacement_seconds",
    "idle_lac_seconds",
    "long_poll_seconds",
)
"""Durations in seconds that must be above 0."""
PERIODS = (
    "failed_bookie_seconds",
    "close_drain_seconds_max",
    "quarantine_seconds",
)
"""Durations in seconds that may be 0."""
SECRETS = ("encryption_key",)
"""Settings whose values are not shown in error messages."""

KEY_BYTES = 32

FLAGS = ("delay_ensemble_change", "under_replicate_rather_than_wait", "require_all_bookies")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings of a LedgerClient.

    `pending_bytes_max`: limit of a writer's unconfirmed bytes; once it is reached, `append` waits.
    `lane_backlog_bytes_max`: backlog of one slow bookie, in addition to pending entries, beyond which the bookie is
    replaced; if there is no replacement, appends wait for it (rule W6). `under_replicate_rather_than_wait`: if there is
    no replacement, the slow bookie counts as failed instead, and entries lack its copy until re-replication.
    `append_seconds_max`: a bookie that has been sent appends and acknowledges none of them for this long counts as
    failed; a shorter time detects a hung host sooner, and a longer one tolerates a stalling disk.
    `append_quorum_seconds_max`: how long a writer tries to reach an ack quorum before it ends with an error.
    `window_bytes_max`: limit of bytes sent to one bookie but not yet acknowledged. `read_ahead_pages`: number of pages
    to prefetch. `read_ahead_bytes_max`: limit of the total size of prefetched pages, assuming the maximum page size of
    4 MiB from each bookie asked for a page; one page is always fetched, and a speculative read adds another copy of its
    page. `read_seconds_max`: timeout of one call to one bookie. `speculative_read_seconds`: after this long without an
    answer, other replicas are asked, too; a shorter time hides slow bookies better but reads more pages twice; 0 or
    None waits for `read_seconds_max`. `delay_ensemble_change`: a writer replaces a failed bookie only when a write set
    would lose its ack quorum; this makes fewer fragments, but leaves fewer copies in the meantime. `fault_domains_min`:
    copies of an entry are spread over as many fault domains as there are; if there are fewer than this, no ledger is
    created and no failed bookie is replaced. All bookies without a domain count as one domain. `require_all_bookies`: a
    ledger is created only with live bookies at all positions; otherwise an ack quorum of each write set suffices, and
    the absent bookies get their copies later (rule W9).

    `page_bytes` … `quarantine_seconds` are not settings, but a program may pass them; the constants with the same names
    describe them.

    `certificates`: directory of the client's and its authorities' certificates (`bookie.wire.trust.certificates`); with
    certificates, a client uses only TLS. None means the environment variable BOOKLEDGER_CERTS, and "" always means
    plain text. `encryption_key`: 32 bytes that encrypt and decrypt the ledgers that this client creates; bookies never
    receive it. None reads the file specified by BOOKLEDGER_KEY_FILE, and b"" means no key. `metrics`: the
    prometheus-client registry for the client's metrics (docs/metrics.md has the list); clients may share one.
    `tracing`: OpenTelemetry's provider for spans of batches, pages and recoveries; None creates no spans and costs
    nothing. `own_bookie`: the bookie in whose process and loop this client runs: it is reached without the network, and
    preferred to otherwise equal bookies for new ledgers.
    """

    pending_bytes_max: int = tunable(
        32 * MIB, "Limit of a writer's unconfirmed bytes; once it is reached, append waits.", MIB, 2**40
    )
    lane_backlog_bytes_max: int = tunable(
        64 * MIB,
        "Bytes that may wait for one slow bookie, in addition to pending bytes, before the bookie is replaced.",
        MIB,
        2**40,
    )
    window_bytes_max: int = tunable(
        4 * MIB, "Limit of bytes sent to one bookie but not yet acknowledged.", MIB, 2**40
    )
    append_seconds_max: float = tunable(
        5.0,
        "A bookie that does not answer for this long counts as failed; a longer time tolerates a stalling disk.",
        0.001,
        86_400,
    )
    append_quorum_seconds_max: float = tunable(
        60.0,
        "How long a writer tries to reach an ack quorum before it ends with an error.",
        0.001,
        86_400,
    )
    read_seconds_max: float = tunable(10.0, "How long one call to one bookie may take.", 0.001, 86_400)
    read_ahead_pages: int = tunable(4, "Pages fetched ahead of the reader.", 1, 1024)
    read_ahead_bytes_max: int = tunable(
        32 * MIB, "Limit of the total size of all pages fetched ahead.", MIB, 2**40
    )
    speculative_read_seconds: float | None = tunable(
        0.5,
        "Delay before another bookie is also asked; a shorter delay hides slow bookies better but reads more "
        "pages twice; 0 means never.",
        0,
        86_400,
        kind=float,
    )
    delay_ensemble_change: bool = tunable(
        False,
        "Replace a failed bookie only if an ack quorum would be lost: fewer fragments, but fewer copies until then.",
        0,
        0,
    )
    under_replicate_rather_than_wait: bool = tunable(
        False,
        "If there is no replacement for a slow bookie, continue without its copies until the cluster restores them.",
        0,
        0,
    )
    require_all_bookies: bool = tunable(
        False,
        "Create a ledger only if its entire ensemble is live, rather than just an ack quorum of each write set.",
        0,
        0,
    )
    fault_domains_min: int = tunable(
        1, "With fewer fault domains than this, no ledger is created and no failed bookie is replaced.", 1, 32
    )
    page_bytes: int = PAGE_BYTES
    recovery_tries_max: int = RECOVERY_TRIES_MAX
    recovery_attempts_max: int = RECOVERY_ATTEMPTS_MAX
    retry_replacement_seconds: float = RETRY_REPLACEMENT_SECONDS
    failed_bookie_seconds: float = FAILED_BOOKIE_SECONDS
    idle_lac_seconds: float = IDLE_LAC_SECONDS
    long_poll_seconds: float = LONG_POLL_SECONDS
    close_drain_seconds_max: float = CLOSE_DRAIN_SECONDS_MAX
    quarantine_seconds: float = QUARANTINE_SECONDS
    certificates: str | None = None
    encryption_key: bytes | None = field(default=None, repr=False)
    metrics: CollectorRegistry | None = field(default=None, repr=False, compare=False)
    tracing: TracerProvider | None = field(default=None, repr=False, compare=False)
    own_bookie: OwnBookie | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in BYTES:
            self._check(name, _is_whole(getattr(self, name), MIB), "at least 1 MiB, the size of a full frame")
        for name in COUNTS:
            self._check(name, _is_whole(getattr(self, name), 1), "a whole number, at least 1")
        for name in WAITS:
            seconds = getattr(self, name)
            self._check(name, _is_time(seconds) and seconds > 0, "a number of seconds above 0")
        for name in PERIODS:
            self._check(name, _is_time(getattr(self, name)), "a number of seconds, 0 or more")
        for name in FLAGS:
            self._check(name, isinstance(getattr(self, name), bool), "True or False")
        is_path = isinstance(self.certificates, str | None)
        self._check("certificates", is_path, "the path of a directory, as a str")
        self._check("encryption_key", _is_key(self.encryption_key), f'{KEY_BYTES} bytes, b"" or None')
        is_registry = self.metrics is None or hasattr(self.metrics, "register")
        self._check("metrics", is_registry, "a prometheus_client.CollectorRegistry, or None")
        is_provider = self.tracing is None or hasattr(self.tracing, "get_tracer")
        self._check("tracing", is_provider, "an OpenTelemetry TracerProvider, or None")
        is_own = self.own_bookie is None or hasattr(self.own_bookie, "connect")
        self._check("own_bookie", is_own, "the bookie that runs in this process, or None")
        patience = self.speculative_read_seconds or 0
        self._check(
            "speculative_read_seconds", _is_time(patience), "a number of seconds, or 0 or None for never"
        )
        for smaller, larger in ORDERED:
            if (getattr(self, smaller) or 0) > getattr(self, larger):
                raise ValueError(
                    f"{smaller} ({getattr(self, smaller):g}) must not be more than {larger} ({getattr(self, larger):g})"
                )

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        metrics: CollectorRegistry | None = None,
        tracing: TracerProvider | None = None,
    ) -> ClientConfig:
        """Reads the `[client]` section of a settings file (docs/settings.md), and `certs` and `key-file` at its top
        level.

        Environment variables override the file: BOOKLEDGER_CERTS, BOOKLEDGER_KEY_FILE, and BOOKLEDGER_CLIENT_ followed
        by the name of a setting. `metadata_uri_of` returns the cluster's URI. Raises BadSettings, a ValueError that
        contains the file, line and setting, or the environment variable.
        """
        return settings_file.of_program(
            path,
            cls,
            "client",
            certificates=settings_file.common(path, "certs"),
            encryption_key=settings_file.key_in(path),
            metrics=metrics,
            tracing=tracing,
        )

    def _check(self, name: str, is_right: bool, wanted: str) -> None:
        if not is_right:
            given = "" if name in SECRETS else f", not {getattr(self, name)!r}"
            raise ValueError(f"{name} must be {wanted}{given}")

    @property
    def lane_bytes_max(self) -> int:
        """Limit of a lane's unacknowledged bytes: its backlog, all entries that may be pending, and one more entry.

        Every lane may have to hold all pending entries; pending entries alone never cause the lane to fail.
        """
        return self.lane_backlog_bytes_max + self.pending_bytes_max + ENTRY_BYTES_MAX


def _is_key(value: object) -> bool:
    return value is None or (isinstance(value, bytes) and len(value) in (0, KEY_BYTES))


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= SECONDS_MAX
