"""A journal's settings, validated once. Every bound of the journal manager stands here, with its trade-off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledgers import DigestType, NewLedger
from metadata.settings import file as settings_file
from metadata.settings.tunable import tunable

MIB = 1024 * 1024

PIPELINED_BATCHES_MAX = 64
"""Batches sent to one acceptor and not answered: `queued_edits_bytes_max` bounds what they hold."""

HEARTBEAT_SECONDS = 1.0
"""How often an acceptor that is out of sync is told what is committed, which readers of it wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Settings of a journal's ledgers and of its manager; each says what it is.

    The first five are of each segment's ledger, see `ledgers.NewLedger`; `*_seconds_max` are Hadoop's
    `dfs.qjournal.*.timeout.ms` and `dfs.qjm.operations.timeout`. A single batch is always accepted, however little
    `queued_edits_bytes_max` allows. `pipelined_batches_max` and `heartbeat_seconds` are no settings: the constants
    of these names say what they are.
    """

    ensemble_size: int = tunable(3, "Bookies of each segment's ledger.", 1, 32)
    write_quorum: int | None = tunable(
        None,
        "Bookies of a segment's ledger that each batch goes to; all of them where it is not set.",
        1,
        32,
        kind=int,
    )
    ack_quorum: int | None = tunable(
        None,
        "Bookies that must have a batch on disk before it is confirmed; a majority of them where it is not set.",
        1,
        32,
        kind=int,
    )
    digest: DigestType = tunable(
        DigestType.CRC32C, "What every batch is checked with; hmac-sha256 needs a password.", 0, 0
    )
    password: bytes = b""
    takeover_seconds_max: float = tunable(
        120.0,
        "How long a quorum may take for each step of a take-over: to tell its state, promise an epoch, prepare and "
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
        "How long a quorum may take to tell what there is to read (dfs.qjournal.select-input-streams.timeout.ms).",
        0.1,
        86_400,
    )
    operations_seconds_max: float = tunable(
        60.0, "How long a quorum may take for all else (dfs.qjm.operations.timeout).", 0.1, 86_400
    )
    queued_edits_bytes_max: int = tunable(
        10 * MIB,
        "Edits waiting for one acceptor, past which it is left out until the next segment.",
        1024,
        2**36,
    )
    edits_cache_bytes_max: int = tunable(
        16 * MIB, "The latest edits that an acceptor keeps at hand for readers.", 1024, 2**36
    )
    tail_poll_seconds: float = tunable(0.2, "How often a follower asks for more.", 0.01, 3600)
    pipelined_batches_max: int = PIPELINED_BATCHES_MAX
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    verify_edits: bool = tunable(
        True, "Refuse a batch whose frames, checksums or txids are wrong; Hadoop does not look.", 0, 0
    )
    sync_interval_seconds: float = tunable(
        120.0,
        "How often acceptors get the finalized segments that they lack (dfs.journalnode.sync.interval); 0: never.",
        0,
        86_400,
    )
    sync_bytes_per_second: int = tunable(
        8 * MIB,
        "How fast segments that an acceptor lacks are copied; verifying them takes time from the writer's process.",
        64 * 1024,
        2**36,
    )

    def __post_init__(self) -> None:
        _ = self.new_ledger.shape  # raises if it is impossible
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
        """Reads `[journal]` of a settings file (docs/settings.md); other settings keep their defaults.

        Environment variables, BOOKLEDGER_JOURNAL_ and the name of a setting, override it.
        Raises BadSettings, a ValueError that names the file, the line and the setting, or the variable.
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
