"""Replicated, fenced, durable ledgers: the client, HDFS journals on top of it, and replay on Spark.

    from bookledger import LedgerClient

    with LedgerClient("sqlite:///var/lib/bookledger/metadata.db") as client:
        with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            entry_id = writer.append(b"on disk at two bookies when this returns")
        for entry in client.open_ledger(writer.ledger_id).read():
            print(entry.entry_id, entry.payload)

This module provides the names that most programs need, each imported on first use; `bookledger.errors` provides the
errors, and `bookledger.aio` the clients for asyncio. The packages `ledgers`, `qjm_compat`, `spark` and `metadata`
provide more.
"""

from importlib.util import find_spec
from os.path import dirname, realpath
from typing import TYPE_CHECKING

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

from ledgers.public import lazily, require_our_own

require_our_own("metadata")

if TYPE_CHECKING:
    from ledgers import (
        AdvancedWriteHandle as AdvancedWriteHandle,
        ClientConfig as ClientConfig,
        Columns as Columns,
        Cursor as Cursor,
        DigestType as DigestType,
        Election as Election,
        Entry as Entry,
        LedgerClient as LedgerClient,
        LedgerRecord as LedgerRecord,
        LedgerState as LedgerState,
        Log as Log,
        LogSet as LogSet,
        LogWriter as LogWriter,
        LossAssessment as LossAssessment,
        NewLedger as NewLedger,
        NewRecord as NewRecord,
        ReadHandle as ReadHandle,
        Record as Record,
        Retention as Retention,
        Salvage as Salvage,
        Shape as Shape,
        WriteHandle as WriteHandle,
    )
    from metadata import metadata_uri_of as metadata_uri_of, open_store as open_store
    from qjm_compat import (
        AcceptorConfig as AcceptorConfig,
        EditLogInputStream as EditLogInputStream,
        EditLogOutputStream as EditLogOutputStream,
        EditOp as EditOp,
        JournalConfig as JournalConfig,
        JournalMetrics as JournalMetrics,
        NamespaceInfo as NamespaceInfo,
        QuorumJournalManager as QuorumJournalManager,
        SegmentState as SegmentState,
    )
    from spark import (
        EditsDataSource as EditsDataSource,
        LedgerDataSource as LedgerDataSource,
        register as register,
        session_on as session_on,
    )

    from . import aio as aio, errors as errors

__getattr__, __dir__ = lazily(__name__)
