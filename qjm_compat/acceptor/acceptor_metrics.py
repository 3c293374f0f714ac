"""An acceptor's metrics, under the names of Hadoop's JMX bean `Journal-<id>`."""

from __future__ import annotations

import time

from ..batch import Batch
from ..quantiles import Latencies, percentiles


class AcceptorMetrics:
    """Counters of one acceptor since it started."""

    def __init__(self) -> None:
        self.batches_written = 0
        self.txns_written = 0
        self.bytes_written = 0
        self.batches_written_while_lagging = 0
        self.last_promised_epoch = 0
        self.last_writer_epoch = 0
        self.last_written_txid = 0
        self.last_journal_timestamp_ms = 0
        self.committed_txid = 0
        self.txns_served = 0
        self.bytes_served = 0
        self.empty_responses = 0
        self.misses = 0
        self.missed_txns = 0
        self.edit_logs_synced = 0
        self._syncs = Latencies()

    def wrote(self, batch: Batch, seconds: float, committed_txid: int | None) -> None:
        """Counts a batch that was written to disk, and records how many seconds the write took."""
        self.batches_written += 1
        self.txns_written += batch.num_txns
        self.bytes_written += len(batch.records)
        self.last_written_txid = batch.last_txid
        self.last_journal_timestamp_ms = time.time_ns() // 1_000_000
        self.committed_txid = max(self.committed_txid, committed_txid or 0)
        self.batches_written_while_lagging += batch.last_txid <= self.committed_txid
        self._syncs.add(seconds, time.monotonic())

    def epochs(self, promised: int, writer: int) -> None:
        self.last_promised_epoch, self.last_writer_epoch = promised, writer

    def served(self, txns: int, size: int) -> None:
        """Counts edits served to a tailing reader."""
        self.txns_served += txns
        self.bytes_served += size
        self.empty_responses += txns == 0

    def missed(self, txns: int) -> None:
        """Counts a cache miss: a request for edits that are `txns` transactions older than the cache."""
        self.misses += 1
        self.missed_txns += txns

    @property
    def current_lag_txns(self) -> int:
        """How far this acceptor lags behind the latest committed txid that was reported to it."""
        return max(self.committed_txid - self.last_written_txid, 0) if self.committed_txid else 0

    def snapshot(self) -> dict[str, int | float]:
        """Returns all metrics under Hadoop's names; latencies are in microseconds."""
        values: dict[str, int | float] = {
            "BatchesWritten": self.batches_written,
            "TxnsWritten": self.txns_written,
            "BytesWritten": self.bytes_written,
            "BatchesWrittenWhileLagging": self.batches_written_while_lagging,
            "LastWriterEpoch": self.last_writer_epoch,
            "LastPromisedEpoch": self.last_promised_epoch,
            "LastWrittenTxId": self.last_written_txid,
            "LastJournalTimestamp": self.last_journal_timestamp_ms,
            "CurrentLagTxns": self.current_lag_txns,
            "TxnsServedViaRpc": self.txns_served,
            "BytesServedViaRpc": self.bytes_served,
            "RpcRequestCacheMissAmountNumMisses": self.misses,
            "RpcRequestCacheMissAmountAvgTxns": self.missed_txns / self.misses if self.misses else 0,
            "RpcEmptyResponses": self.empty_responses,
            "NumEditLogsSynced": self.edit_logs_synced,
        }
        return values | percentiles("Syncs", self._syncs)
