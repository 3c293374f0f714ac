"""The settings of a journal, validated once: every limit of the journal manager, with its trade-off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledgers import DigestType, NewLedger
from metadata.settings import settings_file as settings_file
from metadata.settings.tunable import tunable

MIB = 1024 * 1024

PIPELINED_BATCHES_MAX = 64
"""Maximum number of batches sent to one acceptor but not yet answered; `queued_edits_bytes_max` limits their total
size."""

HEARTBEAT_SECONDS = 1.0
"""How often the committed txid is sent to an out-of-sync acceptor, whose readers wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Settings of a journal's ledgers and of its manager; each has a description.

    The first five apply to each segment's ledger (see `ledgers.NewLedger`). `*_seconds_max` correspond to Hadoop's
    `dfs.qjournal.*.timeout.ms` and `dfs.qjm.operations.timeout`. A single batch is always accepted, even if it exceeds
    `queued_edits_bytes_max`. A settings file cannot set `pipelined_batches_max` and `heartbeat_seconds`, whose defaults
    are PIPELINED_BATCHES_MAX and HEARTBEAT_SECONDS.
    """

    ensemble_size: int = tunable(3, "Number of bookies in each segment's ledger.", 1, 32)
    write_quorum: int | None = tunable(
        None,
        "Number of bookies of a segment's ledger that get each batch; all of them by default.",
        1,
        32,
        kind=int,
    )
    ack_quorum: int | None = tunable(
        None,
        "Number of bookies that must have a batch on disk before it is confirmed; by default a majority of the write "
        "quorum.",
        1,
        32,
        kind=int,
    )
    digest: DigestType = tunable(
        DigestType.CRC32C, "Digest that verifies every batch; hmac-sha256 needs a password.", 0, 0
    )
    password: bytes = b""
    takeover_seconds_max: float = tunable(
        120.0,
        "How long a quorum may take for each step of a take-over: report its state, promise an epoch, prepare and "
        "accept a recovery, finalize a segment (the largest of dfs.qjournal.*.timeout.ms for these).",
        0.1,
        86_400,
    )
    start_segment_seconds_max: float = tunable(
        20.0,
        "How long a quorum may take to begin a segment (dfs.qjournal.start-segment.timeout.ms).",
        0.1,
        86_400,
    )
    write_txns_seconds_max: float = tunable(
        20.0, "How long a quorum may take to write a batch (dfs.qjournal.write-txns.timeout.ms).", 0.1, 86_400
    )
    select_input_streams_seconds_max: float = tunable(
        20.0,
        "How long a quorum may take to list the segments to read (dfs.qjournal.select-input-streams.timeout.ms).",
        0.1,
        86_400,
    )
    operations_seconds_max: float = tunable(
        60.0, "How long a quorum may take for any other call (dfs.qjm.operations.timeout).", 0.1, 86_400
    )
    queued_edits_bytes_max: int = tunable(
        10 * MIB,
        "Maximum bytes of edits queued for one acceptor. An acceptor with a longer queue gets no edits until the next "
        "segment.",
        1024,
        2**36,
    )
    edits_cache_bytes_max: int = tunable(
        16 * MIB, "Maximum bytes of recent edits that an acceptor caches for readers.", 1024, 2**36
    )
    tail_poll_seconds: float = tunable(0.2, "How often a follower polls for new edits.", 0.01, 3600)
    pipelined_batches_max: int = PIPELINED_BATCHES_MAX
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    verify_edits: bool = tunable(
        True, "Refuse a batch whose frames, checksums or txids are wrong; Hadoop does not check.", 0, 0
    )
    sync_interval_seconds: float = tunable(
        120.0,
        "How often acceptors get the finalized segments that they lack (dfs.journalnode.sync.interval); 0: never.",
        0,
        86_400,
    )
    sync_bytes_per_second: int = tunable(
        8 * MIB,
        "How fast to copy segments that an acceptor lacks; verifying them uses processor time of the writer's process.",
        64 * 1024,
        2**36,
    )

    def __post_init__(self) -> None:
        _ = self.new_ledger.shape  # raises an error if the quorums are invalid
        if self.sync_interval_seconds < 0 or self.sync_bytes_per_second < 1:
            raise ValueError(
                "sync_interval_seconds must not be negative, and sync_bytes_per_second must be positive"
            )
        positive = ("pipelined_batches_max", "queued_edits_bytes_max", "edits_cache_bytes_max")
        for name in positive:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in self.__slots__:
            if name.endswith("_seconds_max") and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")

    @classmethod
    def from_file(cls, path: str | Path) -> JournalConfig:
        """Reads `[journal]` from a settings file (docs/settings.md); all other settings keep their defaults.

        Environment variables named BOOKLEDGER_JOURNAL_ plus the name of a setting override the file. Raises
        BadSettings, a ValueError that states the file, the line and the setting, or the variable.
        """
        return settings_file.of_program(path, cls, "journal")

    @property
    def new_ledger(self) -> NewLedger:
        """The parameters of each segment's ledger."""
        return NewLedger(
            ensemble_size=self.ensemble_size,
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
            digest=self.digest,
            password=self.password,
        )


@dataclass(frozen=True, slots=True)
class AcceptorConfig:
    """One acceptor of several: its name, and the cluster whose ledgers store its segments."""

    name: str
    metadata_uri: str
