"""A PySpark that is too old for our streams, and not for batches."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from spark.planning.selection import BadSelection
from spark.source import LedgerDataSource
from spark.stream.old_pyspark import STREAMS_OF_PYSPARK

SCHEMA = StructType().add("ledger_id", "long")


def test_a_stream_on_a_pyspark_without_them_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, STREAMS_OF_PYSPARK, None)
    source = LedgerDataSource({"metadata": "memory://old-pyspark"})
    stream = source.streamReader(SCHEMA)
    calls: list[Callable[[], object]] = [
        stream.initialOffset,
        lambda: stream.latestOffset({}, ReadAllAvailable()),
        lambda: stream.partitions({}, {}),
    ]
    for call in calls:
        with pytest.raises(BadSelection, match=r"streams require Spark 4.2 or later, but this is PySpark \d"):
            call()
    assert source.reader(SCHEMA).partitions()[0].ranges == ()
