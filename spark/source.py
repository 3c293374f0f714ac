"""`spark.read.format("ledger")`: closed ledgers as a table, every digest verified.

    from spark.source import LedgerDataSource

    session.dataSource.register(LedgerDataSource)
    entries = session.read.format("ledger").option("metadata", uri).option("ledgers", "1,20-30").load()

Only options select rows. There is no filter push-down: in Spark 4.1 to 4.3 it gives wrong counts for the second
query of a frame.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from .batch.reader import LedgerReader
from .planning.options import LedgerOptions
from .planning.selection import BadSelection

STREAMS_OF_PYSPARK = "pyspark.sql.streaming.datasource"
"""New in PySpark 4.2: it tells a source where a batch begins, and how much it may hold."""


class LedgerDataSource(DataSource):
    """The data source `ledger`; see `spark.planning.options.LedgerOptions` for its options."""

    @classmethod
    def name(cls) -> str:
        return "ledger"

    def schema(self) -> str:
        return LedgerOptions.of(self.options).schema

    def reader(self, schema: StructType) -> LedgerReader:
        return LedgerReader(LedgerOptions.of(self.options).for_batch(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if _has_no_streams():
            return NoStreams()
        from .stream.journal import JournalSegmentsStream
        from .stream.ledgers import ClosedLedgersStream

        options = LedgerOptions.of(self.options)
        kind = ClosedLedgersStream if options.journal is None else JournalSegmentsStream
        return kind(options.for_stream(), schema)


class NoStreams(DataSourceStreamReader):
    """The stream on a PySpark that is too old for it: each call says what to install.

    Raising where it is made would not do: PySpark 4.1 then reports an error of its own in stopping what was not made.
    """

    def initialOffset(self) -> NoReturn:
        raise _too_old()

    def latestOffset(self, *_: Any) -> NoReturn:
        raise _too_old()

    def partitions(self, *_: Any) -> NoReturn:
        raise _too_old()

    def read(self, *_: Any) -> NoReturn:
        raise _too_old()


def _has_no_streams() -> bool:
    try:
        import_module(STREAMS_OF_PYSPARK)
    except ModuleNotFoundError:
        return True
    return False


def _too_old() -> BadSelection:
    return BadSelection(
        f"streams need Spark 4.2 or later, and this is PySpark {pyspark.__version__}, with which only batches can be "
        "read (session.read): install pyspark>=4.2, also where executors run"
    )
