"""Starts Spark in a process that has a client in use, and goes on with both; run by `test_sessions`."""

from __future__ import annotations

import sys

from ledgers import LedgerClient
from spark.session import session_on
from tests.spark.conftest import SESSION


def main(uri: str) -> None:
    with LedgerClient(uri) as client:
        first = client.create_ledger()
        first.append(b"x")
        first.close()
        writer = client.create_ledger()
        writer.append(b"before Spark")
        session = session_on("local[1]", "beside a client", config=SESSION)
        frame = session.read.format("ledger").option("metadata", uri).option("ledgers", first.ledger_id)
        print(frame.load().count(), writer.append(b"beside Spark"), flush=True)
        session.stop()
        print(writer.append(b"after Spark"), flush=True)
        writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
