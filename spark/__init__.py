"""PySpark data sources for closed ledgers, logs and journals.

    from spark import session_on

    session = session_on("local[*]", "my replay")
    entries = session.read.format("ledger").option("metadata", uri).option("ledgers", "1,20-30").load()
    orders = session.read.format("log").option("metadata", uri).option("log", "orders").load()
    edits = session.read.format("edits").option("metadata", uri).option("journal", "ns1").load()

In a session created in another way, call `register(session)` to register these formats. See README.md in this
directory.
"""

from importlib.util import find_spec
from os.path import dirname, realpath
from typing import TYPE_CHECKING

# `ledgers` checks that our other packages are not shadowed by foreign ones; `ledgers` itself must be checked here.
_ledgers = find_spec("ledgers")
if _ledgers is None or dirname(dirname(realpath(_ledgers.origin or ""))) != dirname(
    dirname(realpath(__file__))
):
    raise ImportError(
        f"{_ledgers and _ledgers.origin} is imported in place of bookledger's own package 'ledgers': "
        "rename it, or start the program in another directory",
        name="ledgers",
    )

from ledgers.public import lazily, require_our_own

if TYPE_CHECKING:
    from .edits.source import EditsDataSource as EditsDataSource
    from .logs.source import LogDataSource as LogDataSource
    from .planning.selection import BadSelection as BadSelection
    from .session import register as register, session_on as session_on
    from .source import LedgerDataSource as LedgerDataSource

require_our_own("metadata", "bookie", "ledgers", "qjm_compat")
__getattr__, __dir__ = lazily(__name__)
