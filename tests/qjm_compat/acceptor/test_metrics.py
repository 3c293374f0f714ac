"""What an acceptor tells of itself: it begins at nothing, and counts what happens."""

from __future__ import annotations

from qjm_compat.acceptor.acceptor_metrics import AcceptorMetrics
from qjm_compat.batch import Batch


def batch_of(first_txid: int, num_txns: int, size: int) -> Batch:
    return Batch(first_txid, num_txns, bytes(size), None, 1)


def test_an_acceptor_that_has_done_nothing_tells_zero_of_everything() -> None:
    values = AcceptorMetrics().snapshot()
    assert values == dict.fromkeys(values, 0)


def test_batches_edits_and_bytes_are_counted_as_they_are_written_and_served() -> None:
    metrics = AcceptorMetrics()
    metrics.wrote(batch_of(1, 3, 100), 0.001, None)
    metrics.wrote(batch_of(4, 1, 20), 0.001, 3)
    metrics.served(2, 70)
    metrics.served(1, 20)
    metrics.served(0, 0)
    metrics.missed(8)
    metrics.missed(4)
    values = metrics.snapshot()
    expected = {
        "BatchesWritten": 2,
        "TxnsWritten": 4,
        "BytesWritten": 120,
        "LastWrittenTxId": 4,
        "TxnsServedViaRpc": 3,
        "BytesServedViaRpc": 90,
        "RpcEmptyResponses": 1,
        "RpcRequestCacheMissAmountNumMisses": 2,
        "RpcRequestCacheMissAmountAvgTxns": 6,
        "Syncs60sNumOps": 2,
    }
    assert {name: values[name] for name in expected} == expected


def test_an_acceptor_lags_while_more_is_committed_than_it_has_written() -> None:
    metrics = AcceptorMetrics()
    metrics.wrote(batch_of(1, 3, 100), 0.001, 9)
    assert (metrics.current_lag_txns, metrics.batches_written_while_lagging) == (6, 1)
    metrics.wrote(batch_of(4, 6, 100), 0.001, 9)
    assert (metrics.current_lag_txns, metrics.batches_written_while_lagging) == (0, 2)
    metrics.wrote(batch_of(10, 1, 100), 0.001, 9)
    assert (metrics.current_lag_txns, metrics.batches_written_while_lagging) == (0, 2)
