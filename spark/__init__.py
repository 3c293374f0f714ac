"""Closed ledgers and journals as tables in PySpark.

    from spark import session_on

    session = session_on("local[*]", "my replay")
    entries = session.read.format("ledger").option("metadata", uri).option("ledgers", "1,20-30").load()
    edits = session.read.format("edits").option("metadata", uri).option("journal", "ns1").load()

In a session made otherwise, `register(session)` makes both formats known. README.md beside this file tells the rest.
"""

from typing import TYPE_CHECKING

from ledgers.public import lazily, require_our_own

if TYPE_CHECKING:
    from .edits.source import EditsDataSource
    from .planning.selection import BadSelection
    from .session import register, session_on
    from .source import LedgerDataSource

__all__ = [
    "BadSelection",
    "EditsDataSource",
    "LedgerDataSource",
    "register",
    "session_on",
]

_HOMES = {
    "spark.edits.source": ("EditsDataSource",),
    "spark.planning.selection": ("BadSelection",),
    "spark.source": ("LedgerDataSource",),
}

require_our_own("metadata", "bookie", "ledgers", "qjm_compat")
__getattr__, __dir__ = lazily(
    __name__,
    __all__,
    _HOMES,
    otherwise="spark.session",
    needs=dict.fromkeys((*_HOMES, "spark.session"), "pyspark"),
)
