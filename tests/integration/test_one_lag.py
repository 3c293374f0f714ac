"""A cursor's lag is one figure: what a client says, `log cursors`, the API and the auditor's metrics."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bookie.upkeep.logs.auditor_log_metrics import of_logs
from bookie.upkeep.logs.log_sights import look_at
from bookie.upkeep.logs.retention_rounds import RetentionRounds
from bookledger.cluster.log_lags import lag_of
from tests.support.in_process import on_bookies


async def test_the_lag_within_the_segment_that_is_written_is_told_to_the_record(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        log = await client.create_log("orders")
        sealed = await client.create_log("sealed", password=b"secret")
        rounds = RetentionRounds(cluster.store)
        rounds.ask_lag = partial(lag_of, client)
        async with await log.writer() as writer, await sealed.writer() as of_sealed:
            await of_sealed.append(b"not for everybody")
            await writer.append_batch([b"x"] * 30)
            await writer.append(b"last")  # tells bookies what is confirmed
            for name in ("billing", "reports"):
                async with await log.cursor(name) as cursor:
                    cursor.commit(10 if name == "billing" else await log.end())
            async with await sealed.cursor("billing"):
                pass
            end, lag = await log.end(), await log.lag(10)
            assert (lag.records, lag.seconds > 0) == (end - 10, True)

            await rounds.look()
            told = {
                (metric.name, sample.labels["log"], sample.labels["cursor"]): sample.value
                for metric in of_logs(rounds)
                for sample in metric.samples
                if "cursor" in sample.labels
            }
            records, seconds = "bookledger_log_cursor_lag_records", "bookledger_log_cursor_lag_seconds"
            assert told[records, "orders", "billing"] == lag.records
            assert lag.seconds <= told[seconds, "orders", "billing"] <= (await log.lag(10)).seconds
            assert (told[records, "orders", "reports"], told[seconds, "orders", "reports"]) == (0, 0)
            assert (records, "sealed", "billing") not in told, "unknown is not 0"

            [seen] = await look_at(cluster.store, [log.record], rounds.ask_lag, 1)
            assert [one.name for one in seen.cursors] == ["billing"], "so many are told of"
