"""The blocking `LedgerClient`: every method runs its asyncio twin on a loop in a thread of its own, and waits."""

from __future__ import annotations

from metadata.open import UriOrPath

from .. import aio
from ..config import ClientConfig
from ..errors import ClientClosed, WouldDeadlock
from .base_client import BlockingClient
from .coordination.election import Election
from .log import Log
from .read import ReadHandle
from .salvage import Salvage
from .sets.log_set import LogSet
from .twin_calls import listing, opening, told_as, waiting_for
from .write import AdvancedWriteHandle, WriteHandle

__all__ = [
    "AdvancedWriteHandle",
    "ClientClosed",
    "LedgerClient",
    "ReadHandle",
    "Salvage",
    "WouldDeadlock",
    "WriteHandle",
]


class LedgerClient(BlockingClient[aio.LedgerClient]):
    """A client of one cluster. Use as `with LedgerClient(uri) as client`.

    `metadata_uri` names the cluster's metadata store:

        etcd://HOST:PORT[,HOST:PORT...]/PREFIX    etcd, for example etcd://etcd1:2379,etcd2:2379,etcd3:2379/prod
        etcds://HOST:PORT[,HOST:PORT...]/PREFIX   the same with TLS
        sqlite:///ABSOLUTE/PATH.db                a file on one machine, as sqlite:///var/lib/bookledger/metadata.db

    A `pathlib.Path` of an SQLite file is accepted, too. Without an argument, the environment variable
    BOOKLEDGER_METADATA names the store. Raises BadMetadataUri if neither names one.

    May be used from several threads. After `close`, every call on the client and its handles raises ClientClosed, and
    so does a call that was waiting. The end of the program closes the client, too. In a process that is forked later
    every call raises ClientForked: create a client there. In a callback of an append's future a blocking call raises
    WouldDeadlock, because callbacks run on the client's thread.
    """

    def __init__(self, metadata_uri: UriOrPath | None = None, *, config: ClientConfig | None = None) -> None:
        super().__init__(aio.LedgerClient(metadata_uri, config=config))

    @told_as(aio.LedgerClient.close)
    def close(self) -> None:
        super().close()

    create_ledger = opening(aio.LedgerClient.create_ledger, WriteHandle)
    create_ledger_adv = opening(aio.LedgerClient.create_ledger_adv, AdvancedWriteHandle)
    reserve_ledger = waiting_for(aio.LedgerClient.reserve_ledger)
    claim_ledger = opening(aio.LedgerClient.claim_ledger, WriteHandle)
    open_ledger = opening(aio.LedgerClient.open_ledger, ReadHandle)
    assess_loss = waiting_for(aio.LedgerClient.assess_loss)
    accept_loss = waiting_for(aio.LedgerClient.accept_loss)
    salvage_ledger = opening(aio.LedgerClient.salvage_ledger, Salvage)
    list_ledgers = listing(aio.LedgerClient.list_ledgers)
    describe_ledger = waiting_for(aio.LedgerClient.describe_ledger)
    size_steps = waiting_for(aio.LedgerClient.size_steps)
    delete_ledger = waiting_for(aio.LedgerClient.delete_ledger)
    offload_ledger = waiting_for(aio.LedgerClient.offload_ledger)
    recall_ledger = waiting_for(aio.LedgerClient.recall_ledger)
    check_copy = waiting_for(aio.LedgerClient.check_copy)
    remove_unneeded_objects = waiting_for(aio.LedgerClient.remove_unneeded_objects)
    list_bookies = waiting_for(aio.LedgerClient.list_bookies)
    maintain_bookie = waiting_for(aio.LedgerClient.maintain_bookie)

    create_log = opening(aio.LedgerClient.create_log, Log)
    log = opening(aio.LedgerClient.log, Log)
    log_set = opening(aio.LedgerClient.log_set, LogSet)
    list_log_sets = listing(aio.LedgerClient.list_log_sets)
    delete_log_set = waiting_for(aio.LedgerClient.delete_log_set)
    list_logs = listing(aio.LedgerClient.list_logs)
    rename_log = waiting_for(aio.LedgerClient.rename_log)
    delete_log = waiting_for(aio.LedgerClient.delete_log)

    @told_as(aio.LedgerClient.election)
    def election(self, name: str) -> Election:
        return Election(self._thread, self._twin.election(name))
