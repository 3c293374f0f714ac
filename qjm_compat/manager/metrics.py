"""A writer's metrics of one acceptor, under the names of Hadoop's JMX bean `IPCLoggerChannel-<address>`."""

from __future__ import annotations

import time

from ..quantiles import Latencies, percentiles
from .channel import Channel


class LoggerMetrics:
    """Metrics of one acceptor. `CurrentLagTxns` and `LagTimeMillis` measure how far it lags behind a quorum."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._in_sync_at = time.monotonic()
        self._rpc = Latencies()
        self._end_to_end = Latencies()

    def wrote(self, end_to_end_seconds: float, rpc_seconds: float) -> None:
        """Counts an acknowledged batch, with the seconds since it was queued and since it was sent."""
        now = time.monotonic()
        self._end_to_end.add(end_to_end_seconds, now)
        self._rpc.add(rpc_seconds, now)
        self._note_lag(now)

    def committed(self) -> None:
        """Called when a quorum has committed further edits."""
        self._note_lag(time.monotonic())

    def _note_lag(self, now: float) -> None:
        if self.current_lag_txns == 0:
            self._in_sync_at = now

    @property
    def current_lag_txns(self) -> int:
        return max((self._channel.committed_txid or 0) - self._channel.highest_acked_txid, 0)

    @property
    def lag_time_millis(self) -> int:
        return round((time.monotonic() - self._in_sync_at) * 1000) if self.current_lag_txns else 0

    def snapshot(self) -> dict[str, int | float | str]:
        """All metrics by Hadoop's names; latencies in microseconds."""
        values: dict[str, int | float | str] = {
            "IsOutOfSync": str(self._channel.is_out_of_sync).lower(),
            "CurrentLagTxns": self.current_lag_txns,
            "LagTimeMillis": self.lag_time_millis,
            "QueuedEditsSize": self._channel.queued_bytes,
            "QueuedCalls": self._channel.queued_calls,
        }
        return values | percentiles("WritesE2E", self._end_to_end) | percentiles("WritesRpc", self._rpc)
