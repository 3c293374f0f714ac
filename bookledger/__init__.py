"""Replicated, fenced, durable ledgers: the client, HDFS journals on top of it, and replay on Spark.

    from bookledger import LedgerClient

    with LedgerClient("sqlite:///var/lib/bookledger/metadata.db") as client:
        with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            entry_id = writer.append(b"on disk at two bookies when this returns")
        for entry in client.open_ledger(writer.ledger_id).read():
            print(entry.entry_id, entry.payload)

Every public name of the packages `ledgers`, `qjm_compat`, `spark` and `metadata` is one of this package too, and is
imported when it is first used. `ledgers.aio` and `qjm_compat.aio` have the same for asyncio.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from os.path import dirname, realpath
from typing import TYPE_CHECKING, Any

# `ledgers` has this check for all other packages; for `ledgers` itself it must be done here.
_ledgers = find_spec("ledgers")
if _ledgers is None or dirname(dirname(realpath(_ledgers.origin or ""))) != dirname(
    dirname(realpath(__file__))
):
    raise ImportError(
        f"{_ledgers and _ledgers.origin} is imported in place of bookledger's own package 'ledgers': "
        "rename it, or start the program in another directory",
        name="ledgers",
    )

from ledgers.public import require_our_own

if TYPE_CHECKING:
    from ledgers import *
    from metadata import *
    from qjm_compat import *
    from spark import *

_COMPOSED = ("ledgers", "metadata", "qjm_compat", "spark")
"""In this order a name is looked for: who uses the client alone does without the others."""


def _public() -> Iterator[tuple[str, list[str]]]:
    """Each package, and its public names."""
    for package in _COMPOSED:
        require_our_own(package)
        yield package, import_module(package).__all__


def __getattr__(name: str) -> Any:
    if name == "__all__":  # of `import *`: without the names of what is not installed
        absent = () if find_spec("pyspark") else ("spark",)
        return [one for package, names in _public() if package not in absent for one in names]
    if not name.startswith("__"):
        for package, names in _public():
            if name in names:
                return globals().setdefault(name, getattr(import_module(package), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
