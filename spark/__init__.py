"""Closed ledgers and journals as tables in PySpark.

    from spark import session_on

    session = session_on("local[*]", "my replay")
    entries = session.read.format("ledger").option("metadata", uri).option("ledgers", "7,20-30").load()
    edits = session.read.format("edits").option("metadata", uri).option("journal", "ns1").load()

In a session made otherwise, `register(session)` makes both formats known. README.md beside this file tells the rest.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .edits.source import EditsDataSource
    from .planning.selection import BadSelection
    from .session import register, session_on
    from .source import LedgerDataSource

__all__ = ["BadSelection", "EditsDataSource", "LedgerDataSource", "register", "session_on"]

_HOME_OF = {
    "BadSelection": "spark.planning.selection",
    "EditsDataSource": "spark.edits.source",
    "LedgerDataSource": "spark.source",
    "register": "spark.session",
    "session_on": "spark.session",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: PySpark need not be there for whoever only looks."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
