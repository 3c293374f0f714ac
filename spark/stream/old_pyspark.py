"""Substitutes for the streams, for use if the installed PySpark is too old for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader

from ..planning.selection import BadSelection

STREAMS_OF_PYSPARK = "pyspark.sql.streaming.datasource"
"""A module that PySpark 4.2 introduced. With it, a source is given the start and the size limit of each batch."""


class NoStreams(DataSourceStreamReader):
    """Substitute for a stream if the installed PySpark is too old for streams: each call raises an error that names the
    version to install.

    The constructor does not raise, because PySpark 4.1 would then report an error of its own when it tried to stop the
    missing stream.
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
    """Returns whether this PySpark lacks the base classes of our streams."""
    try:
        import_module(STREAMS_OF_PYSPARK)
    except ModuleNotFoundError:
        return True
    return False


def _too_old() -> BadSelection:
    return BadSelection(
        f"streams require Spark 4.2 or later, but this is PySpark {pyspark.__version__}, which can only read batches "
        "(session.read): install pyspark>=4.2, on the hosts of executors too"
    )
