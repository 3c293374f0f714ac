"""A journal's settings, checked once. Every bound of the journal manager stands here, with its trade-off."""

from __future__ import annotations

from dataclasses import dataclass

from ledgers import DigestType, NewLedger

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Settings of a journal's ledgers and of its manager.

    `ensemble_size`, `write_quorum`, `ack_quorum`, `digest`, `password`: of each segment's ledger; see
    `ledgers.NewLedger`. `select_input_streams_seconds_max` … `operations_seconds_max`: how long a quorum
    may take to answer (Hadoop's `dfs.qjournal.*.timeout.ms` and `dfs.qjm.operations.timeout`).
    `queued_edits_bytes_max`: edits waiting for one acceptor, past which it is left out until the next
    segment; a single batch is always let in. `pipelined_batches_max`: batches sent to one acceptor and not
    answered. `heartbeat_seconds`: how often an acceptor that is out of sync is told what is committed.
    `output_buffer_bytes`: edits an output stream gathers before it wants to be flushed.
    `edits_cache_bytes_max`: the latest edits an acceptor keeps at hand for readers. `tail_txns_max`,
    `tail_bytes_max`: edits an acceptor gives at a time when tailing; one batch it always gives.
    `tail_poll_seconds`: how often a follower asks for more. `tail_behind_seconds_max`: how long the acceptors may
    know of less than a follower that goes on has read. `verify_edits`: refuse a batch whose frames,
    checksums or txids are wrong; Hadoop does not look.
    """

    ensemble_size: int = 3
    write_quorum: int | None = None
    ack_quorum: int | None = None
    digest: DigestType = DigestType.CRC32C
    password: bytes = b""
    get_journal_state_seconds_max: float = 120.0
    new_epoch_seconds_max: float = 120.0
    prepare_recovery_seconds_max: float = 120.0
    accept_recovery_seconds_max: float = 120.0
    finalize_segment_seconds_max: float = 120.0
    start_segment_seconds_max: float = 20.0
    write_txns_seconds_max: float = 20.0
    select_input_streams_seconds_max: float = 20.0
    operations_seconds_max: float = 60.0
    queued_edits_bytes_max: int = 10 * MIB
    pipelined_batches_max: int = 64
    heartbeat_seconds: float = 1.0
    slow_call_seconds: float = 1.0
    output_buffer_bytes: int = 512 * 1024
    edits_cache_bytes_max: int = 16 * MIB
    tail_txns_max: int = 5000
    tail_bytes_max: int = 8 * MIB
    tail_poll_seconds: float = 0.2
    tail_behind_seconds_max: float = 20.0
    verify_edits: bool = True

    def __post_init__(self) -> None:
        _ = self.new_ledger.shape  # raises where it does not fit
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

    @property
    def new_ledger(self) -> NewLedger:
        """What each segment's ledger is asked to be."""
        return NewLedger(
            ensemble_size=self.ensemble_size,
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
            digest=self.digest,
            password=self.password,
        )


@dataclass(frozen=True, slots=True)
class AcceptorConfig:
    """One acceptor of several: its name, and the cluster whose ledgers are its disk."""

    name: str
    metadata_uri: str
