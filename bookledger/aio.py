"""The clients for asyncio: `LedgerClient` and `QuorumJournalManager` with their handles, under the same names as in
`bookledger`.

from bookledger.aio import LedgerClient

async with LedgerClient(uri) as client, await client.create_ledger() as writer:
    entry_id = await writer.append(b"on disk at an ack quorum when this returns")
"""

from typing import TYPE_CHECKING

from ledgers.public import lazily

if TYPE_CHECKING:
    from ledgers.aio import (
        AdvancedWriteHandle as AdvancedWriteHandle,
        Cursor as Cursor,
        Election as Election,
        LedgerClient as LedgerClient,
        ReadHandle as ReadHandle,
        Salvage as Salvage,
        Term as Term,
        WriteHandle as WriteHandle,
    )
    from qjm_compat.aio import QuorumJournalManager as QuorumJournalManager
    from qjm_compat.manager.input_stream import EditLogInputStream as EditLogInputStream
    from qjm_compat.manager.output_stream import EditLogOutputStream as EditLogOutputStream

__getattr__, __dir__ = lazily(__name__)
