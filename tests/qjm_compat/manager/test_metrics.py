"""What a writer tells of one acceptor: how long batches took, and how far behind it is."""

from __future__ import annotations

import pytest

from qjm_compat.config import JournalConfig
from qjm_compat.manager.channel import Channel
from qjm_compat.manager.logger import LoggerMetrics
from qjm_compat.quantiles import WINDOWS_SECONDS

PERCENTILE = "50thPercentileLatencyMicros"


@pytest.mark.parametrize("window", WINDOWS_SECONDS)
def test_the_time_from_the_queue_and_the_time_of_the_call_alone_are_told_apart(window: int) -> None:
    metrics = LoggerMetrics(Channel("a", JournalConfig()))
    for _ in range(3):
        metrics.wrote(end_to_end_seconds=0.5, rpc_seconds=0.002)
    values = metrics.snapshot()
    assert values[f"WritesE2E{window}sNumOps"] == values[f"WritesRpc{window}sNumOps"] == 3
    assert values[f"WritesE2E{window}s{PERCENTILE}"] == pytest.approx(500_000, rel=0.1)
    assert values[f"WritesRpc{window}s{PERCENTILE}"] == pytest.approx(2_000, rel=0.1)


def test_the_lag_of_an_acceptor_is_what_a_quorum_has_and_it_has_not() -> None:
    channel = Channel("a", JournalConfig())
    metrics = LoggerMetrics(channel)
    channel.committed_txid, channel.highest_acked_txid = 9, 4
    metrics.committed()
    assert metrics.snapshot()["CurrentLagTxns"] == 5
    channel.highest_acked_txid = 9
    metrics.wrote(0.5, 0.002)
    values = metrics.snapshot()
    assert (values["CurrentLagTxns"], values["LagTimeMillis"]) == (0, 0)
