"""A client's settings, checked once. Every bound of the client stands here, with its trade-off."""

from __future__ import annotations

from dataclasses import dataclass, field

from bookie.wire import ENTRY_BYTES_MAX

MIB = 1024 * 1024

PLAIN_TEXT = ""
"""For `certificates`: none, whatever the environment names."""

SECONDS_MAX = 1e9
"""Longer than anybody waits."""

ORDERED = (
    ("append_seconds_max", "append_quorum_seconds_max"),
    ("speculative_read_seconds", "read_seconds_max"),
    ("page_bytes", "read_ahead_bytes_max"),
    ("failed_bookie_seconds", "quarantine_seconds"),
)
"""Of each two settings the first may not be larger: it would never come to bear."""

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
    "quarantine_failures",
)
WAITS = (
    "append_seconds_max",
    "append_quorum_seconds_max",
    "read_seconds_max",
    "retry_replacement_seconds",
    "idle_lac_seconds",
    "long_poll_seconds",
)
"""Seconds of which there must be some."""
PERIODS = (
    "failed_bookie_seconds",
    "close_drain_seconds_max",
    "quarantine_window_seconds",
    "quarantine_seconds",
)
"""Seconds that may be none."""
SECRETS = ("encryption_key",)
"""What no error shows."""

KEY_BYTES = 32

FLAGS = ("delay_ensemble_change", "under_replicate_rather_than_wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings of a LedgerClient.

    `pending_bytes_max`: entries of one writer that are not confirmed yet; a full writer makes `append`
    wait. `lane_backlog_bytes_max`: what may wait for one slow bookie beside what is pending anyway, past which it
    is replaced, and where there is no other appends wait for it (rule W6). `under_replicate_rather_than_wait`: where
    there is no other it counts as failed instead, and entries go without the copy until the cluster mends them.
    `append_seconds_max`: how long a bookie to which something was sent may answer nothing before it counts as failed;
    shorter notices a hung host sooner, longer rides out a disk that stalls.
    `append_quorum_seconds_max`: how long a writer waits for an ack quorum, and looks for one, before it gives
    up. `window_bytes_max`: sent to one bookie and not answered. `page_bytes`: what a bookie is asked for at
    a time; it gives more where one
    entry is larger. `read_ahead_pages`: pages fetched before they are asked for. `read_ahead_bytes_max`:
    what those may take together if each is as large as pages can be, 4 MiB from each bookie asked for it;
    one page is always fetched, and a speculative read brings another copy of its page. `read_seconds_max`:
    for one call to one bookie. `speculative_read_seconds`: a bookie silent for so long is not waited for,
    other replicas are asked too; shorter hides slow bookies better and reads more twice, 0 or None waits
    for `read_seconds_max`. `idle_lac_seconds`: how soon an idle writer tells the bookies that its last
    entries are confirmed. `failed_bookie_seconds`: how long a bookie that failed is used only when there is
    no other. `delay_ensemble_change`: a writer replaces a failed bookie only when a write set would lose
    its ack quorum: fewer fragments, and fewer copies meanwhile. `quarantine_*`: a bookie that failed so
    often within the window is used only when there is no other for `quarantine_seconds`.
    `fault_domains_min`: copies of an entry stand on as many fault domains as there are; with fewer than this no ledger
    is made, and no bookie is taken in place of a failed one. Bookies without a domain count as one together.
    `close_drain_seconds_max`: how long a recovery waits for the slowest copies of what it wrote back, when the
    ledger is closed; a writer that closes waits for its copies as long as they move. `retry_replacement_seconds`:
    how soon a writer that has found no replacement looks for one again. `recovery_tries_max`: how often a recovery
    asks a bookie that does not answer; `recovery_attempts_max`: how often it begins again because another one was
    faster. `long_poll_seconds`: how long a follower's question for news may wait at a bookie. `certificates`: directory
    with the client's own and its authorities' (`bookie.wire.trust.certificates`); with them a client speaks TLS and
    nothing else. None takes what BOOKLEDGER_CERTS names in the environment, and "" plain text in any. `encryption_key`:
    32 bytes, which ledgers that this client makes are encrypted with, and such ledgers read; bookies never have it.
    None takes the file that BOOKLEDGER_KEY_FILE names, and b"" none.
    """

    pending_bytes_max: int = 32 * MIB
    lane_backlog_bytes_max: int = 64 * MIB
    window_bytes_max: int = 4 * MIB
    append_seconds_max: float = 5.0
    append_quorum_seconds_max: float = 60.0
    read_seconds_max: float = 10.0
    page_bytes: int = 1 * MIB
    read_ahead_pages: int = 4
    read_ahead_bytes_max: int = 32 * MIB
    speculative_read_seconds: float | None = 0.5
    recovery_tries_max: int = 3
    recovery_attempts_max: int = 50
    retry_replacement_seconds: float = 1.0
    failed_bookie_seconds: float = 30.0
    idle_lac_seconds: float = 0.05
    long_poll_seconds: float = 10.0
    close_drain_seconds_max: float = 2.0
    delay_ensemble_change: bool = False
    under_replicate_rather_than_wait: bool = False
    quarantine_failures: int = 3
    quarantine_window_seconds: float = 300.0
    quarantine_seconds: float = 1800.0
    fault_domains_min: int = 1
    certificates: str | None = None
    encryption_key: bytes | None = field(default=None, repr=False)

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
        patience = self.speculative_read_seconds or 0
        self._check("speculative_read_seconds", _is_time(patience), "a number of seconds; 0 or None is never")
        for smaller, larger in ORDERED:
            if (getattr(self, smaller) or 0) > getattr(self, larger):
                raise ValueError(
                    f"{smaller} ({getattr(self, smaller):g}) must not be more than {larger} ({getattr(self, larger):g})"
                )

    def _check(self, name: str, is_right: bool, wanted: str) -> None:
        if not is_right:
            told = "" if name in SECRETS else f", not {getattr(self, name)!r}"
            raise ValueError(f"{name} must be {wanted}{told}")

    @property
    def lane_bytes_max(self) -> int:
        """What a lane may hold unanswered: its backlog beside all that may be pending, and one entry over.

        So what is pending, which every lane may have to hold, never makes a lane fail by itself.
        """
        return self.lane_backlog_bytes_max + self.pending_bytes_max + ENTRY_BYTES_MAX


def _is_key(value: object) -> bool:
    return value is None or (isinstance(value, bytes) and len(value) in (0, KEY_BYTES))


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= SECONDS_MAX
