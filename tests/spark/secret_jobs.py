"""Two jobs over ledgers with a password in a cluster with TLS, one that fails; run by `test_secrets`.

secret_jobs.py METADATA_URI PASSWORD_FILE GOOD_LEDGER DOOMED_LEDGER EVENT_LOG_DIRECTORY
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ledgers import LedgerClient
from spark.session import session_on
from tests.spark.conftest import SESSION, event_log


def main(uri: str, password_file: str, good: str, doomed: str, events: str) -> None:
    secret = Path(password_file).read_bytes()
    config = SESSION | event_log(events) | {"spark.log.level": "INFO"}
    session = session_on("local[1]", "secret jobs", config=config)
    try:
        frames = [table(session, uri, password_file, ledger) for ledger in (good, doomed)]
        for frame in frames:
            frame.explain(extended=True)
            print("counted", frame.count(), flush=True)
        with LedgerClient(uri) as client:
            client.delete_ledger(int(doomed), password=secret)
        Path(password_file).unlink()  # executors have no use for it
        print("counted again", frames[0].count(), flush=True)
        fail(frames[1])
    finally:
        session.stop()


def table(session: SparkSession, uri: str, password_file: str, ledger: str) -> DataFrame:
    reader = session.read.format("ledger").option("metadata", uri).option("ledgers", ledger)
    return reader.option("password_file", password_file).load()


def fail(frame: DataFrame) -> None:
    try:
        frame.count()
    except PySparkException as error:
        traceback.print_exc()
        print("failed as it should:", error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
