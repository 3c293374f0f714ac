"""A journal's settings, validated once. Every bound of the journal manager stands here, with its trade-off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledgers import DigestType, NewLedger
from metadata.settings import file as settings_file
from metadata.settings.tunable import tunable

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Settings of a journal's ledgers and of its manager.

    `ensemble_size`, `write_quorum`, `ack_quorum`, `digest`, `password`: of each segment's ledger; see
    `ledgers.NewLedger`. `select_input_streams_seconds_max` … `operations_seconds_max`: how long a quorum
    may take to answer (Hadoop's `dfs.qjournal.*.timeout.ms` and `dfs.qjm.operations.timeout`).
    `queued_edits_bytes_max`: edits queued for one acceptor, past which it is left out until the next
    segment; a single batch is always accepted. `pipelined_batches_max`: batches sent to one acceptor and not
    answered. `heartbeat_seconds`: how often an out-of-sync acceptor is sent the committed txid.
    `output_buffer_bytes`: edits an output stream buffers before it asks to be flushed.
    `edits_cache_bytes_max`: the latest edits an acceptor caches for readers. `tail_txns_max`,
    `tail_bytes_max`: edits an acceptor gives at a time when tailing, but at least one batch.
    `tail_poll_seconds`: how often a follower polls. `tail_behind_seconds_max`: how long the acceptors may
    know of less than a resumed follower has read. `verify_edits`: refuse a batch whose frames,
    checksums or txids are wrong; Hadoop does not check. `sync_interval_seconds`: how often acceptors
    are given the finalized segments that they lack (Hadoop's `dfs.journalnode.sync.interval`), 0 for never;
    `sync_bytes_per_second`: how fast these are copied.
    """

    ensemble_size: int = tunable(3, "Bookies of each segment's ledger.", 1, 32)
    write_quorum: int | None = tunable(
        None, "Of those, bookies that each batch goes to; all where it is not set.", 1, 32, kind=int
    )
    ack_quorum: int | None = tunable(
        None, "Of those, bookies that confirm it; a majority where it is not set.", 1, 32, kind=int
    )
    digest: DigestType = tunable(
        DigestType.CRC32C, "What every batch is checked with; hmac-sha256 needs a password.", 0, 0
    )
    password: bytes = b""
    get_journal_state_seconds_max: float = tunable(
        120.0,
        "How long a quorum may take to tell its state (dfs.qjournal.get-journal-state.timeout.ms).",
        0.1,
        86_400,
    )
    new_epoch_seconds_max: float = tunable(
        120.0, "To promise an epoch (dfs.qjournal.new-epoch.timeout.ms).", 0.1, 86_400
    )
    prepare_recovery_seconds_max: float = tunable(
        120.0, "To prepare a recovery (dfs.qjournal.prepare-recovery.timeout.ms).", 0.1, 86_400
    )
    accept_recovery_seconds_max: float = tunable(
        120.0, "To accept one (dfs.qjournal.accept-recovery.timeout.ms).", 0.1, 86_400
    )
    finalize_segment_seconds_max: float = tunable(
        120.0, "To finalize a segment (dfs.qjournal.finalize-segment.timeout.ms).", 0.1, 86_400
    )
    start_segment_seconds_max: float = tunable(
        20.0, "To begin one (dfs.qjournal.start-segment.timeout.ms).", 0.1, 86_400
    )
    write_txns_seconds_max: float = tunable(
        20.0, "To write a batch (dfs.qjournal.write-txns.timeout.ms).", 0.1, 86_400
    )
    select_input_streams_seconds_max: float = tunable(
        20.0, "To tell what there is to read (dfs.qjournal.select-input-streams.timeout.ms).", 0.1, 86_400
    )
    operations_seconds_max: float = tunable(60.0, "For all else (dfs.qjm.operations.timeout).", 0.1, 86_400)
    queued_edits_bytes_max: int = tunable(
        10 * MIB,
        "Edits waiting for one acceptor, past which it is left out until the next segment.",
        1024,
        2**36,
    )
    pipelined_batches_max: int = tunable(64, "Batches sent to one acceptor and not answered.", 1, 10_000)
    heartbeat_seconds: float = tunable(
        1.0, "How often an acceptor that is out of sync is told what is committed.", 0.1, 3600
    )
    slow_call_seconds: float = tunable(1.0, "A call that takes longer is told in the log.", 0.01, 3600)
    output_buffer_bytes: int = tunable(
        512 * 1024, "Edits that a stream gathers before it wants to be flushed.", 1024, 2**27
    )
    edits_cache_bytes_max: int = tunable(
        16 * MIB, "The latest edits that an acceptor keeps at hand for readers.", 1024, 2**36
    )
    tail_txns_max: int = tunable(5000, "Edits that an acceptor gives at a time.", 1, 1_000_000)
    tail_bytes_max: int = tunable(8 * MIB, "The same, in bytes; one batch it always gives.", 1024, 2**27)
    tail_poll_seconds: float = tunable(0.2, "How often a follower asks for more.", 0.01, 3600)
    tail_behind_seconds_max: float = tunable(
        20.0, "How long the acceptors may know of less than a follower has read.", 0.1, 86_400
    )
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
        "How fast these are copied; verifying them takes time from the writer's process.",
        64 * 1024,
        2**36,
    )

    def __post_init__(self) -> None:
        _ = self.new_ledger.shape  # raises if it is impossible
        if self.sync_interval_seconds < 0 or self.sync_bytes_per_second < 1:
            raise ValueError(
                "sync_interval_seconds must not be negative, and sync_bytes_per_second must be positive"
            )
        positive = (
            "pipelined_batches_max",
            "queued_edits_bytes_max",
            "output_buffer_bytes",
            "edits_cache_bytes_max",
            "tail_txns_max",
            "tail_bytes_max",
        )
        for name in positive:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in self.__slots__:
            if name.endswith("_seconds_max") and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")

    @classmethod
    def from_file(cls, path: str | Path) -> JournalConfig:
        """Reads `[journal]` of a settings file (docs/operators.md); other settings keep their defaults.

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
