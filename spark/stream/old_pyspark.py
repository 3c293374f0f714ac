"""Replaces the streams if the installed PySpark is too old for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader

from ..planning.selection import BadSelection

STREAMS_OF_PYSPARK = "pyspark.sql.streaming.datasource"
"""New in PySpark 4.2: it gives a source the start and the size limit of each batch."""


class NoStreams(DataSourceStreamReader):
    """The stream if the installed PySpark is too old for streams: each call raises an error that names the version to
    install.

    Its constructor does not raise, because PySpark 4.1 would then report an error of its own while stopping the missing
    stream.
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
        f"streams need Spark 4.2 or later, and this is PySpark {pyspark.__version__}, with which only batches can be "
        "read (session.read): install pyspark>=4.2, also where executors run"
    )
