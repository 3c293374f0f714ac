"""What stands for a stream on a PySpark that is too old for ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader

from ..planning.selection import BadSelection

STREAMS_OF_PYSPARK = "pyspark.sql.streaming.datasource"
"""New in PySpark 4.2: it tells a source where a batch begins, and how much it may hold."""


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


def has_no_streams() -> bool:
    """Whether this PySpark has none of what our streams are made of."""
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
