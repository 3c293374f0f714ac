"""The blocking `LedgerClient`: every method runs its asyncio twin on a loop in a separate thread, and waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime

from metadata.records.ledger_record import LedgerRecord
from metadata.store_factory import UriOrPath

from .. import aio
from ..config import ClientConfig
from ..entry import Entry, Payload, as_bytes
from ..errors import ClientClosed, WouldDeadlock
from ..loop_thread import LoopThread
from ..reading.batch_read import entries_of
from ..writing.checked_batch import CheckedBatch, checked
from .back_pressure import BackPressure, bytes_of
from .base_client import BlockingClient
from .bulk_writer import BulkWriter
from .election import Election
from .handle import BlockingHandle, closed_once
from .log import Log
from .log_set import LogSet
from .twin_calls import (
    BlockingFacade,
    asking,
    copy_docstring,
    in_items,
    iterating,
    listing,
    opening,
    waiting_for,
)


class WriteHandle(BulkWriter[aio.WriteHandle, bytes], BlockingHandle[aio.WriteHandle]):
    """The only writer of a ledger. Created by `LedgerClient.create_ledger`; may be used from several threads.

    Appends are confirmed strictly in entry order (rule W2). When the writer fails (`LedgerFenced`, `NotEnoughBookies`,
    …) every unconfirmed append fails with that error, and so do `flush` and `close`. Entries of these appends may or
    may not be in the ledger; opening it with recovery settles which of them are.
    """

    def __init__(self, thread: LoopThread, handle: aio.WriteHandle) -> None:
        BulkWriter.__init__(self, thread, handle, handle._cluster.turn, next_entry=0)
        self._entry_bytes_max = handle.entry_bytes_max

    @copy_docstring(aio.WriteHandle.append)
    def append(self, payload: Payload) -> int:
        self._thread.check_may_wait()
        return self.append_async(payload).result()

    @copy_docstring(aio.WriteHandle.append_async)
    def append_async(self, payload: Payload) -> Future[int]:
        if type(payload) is not bytes or len(payload) > self._entry_bytes_max:
            payload = checked(payload, self._entry_bytes_max)
        return self._append_one(payload, len(payload))

    @copy_docstring(aio.WriteHandle.append_batch)
    def append_batch(self, payloads: Sequence[Payload]) -> range:
        self._thread.check_may_wait()
        return self._append_all(CheckedBatch(payloads, self._entry_bytes_max))

    @copy_docstring(aio.WriteHandle.append_nowait)
    def append_nowait(self, payload: Payload) -> int:
        taken = checked(payload, self._entry_bytes_max)
        return self._append_now(taken, len(taken), f"ledger {self.ledger_id}")

    confirmed = waiting_for(aio.WriteHandle.confirmed)
    flush = waiting_for(aio.WriteHandle.flush)
    force = waiting_for(aio.WriteHandle.force)

    @copy_docstring(aio.WriteHandle.close)
    def close(self) -> None:
        with closed_once(self._twin):
            self._run(self._twin.close)


class AdvancedWriteHandle(BlockingHandle[aio.AdvancedWriteHandle]):
    """The only writer of a ledger whose entry ids are chosen by the caller, in any order.

    Created by `LedgerClient.create_ledger_adv`; may be used from several threads. An entry is sent when every entry
    before it has been appended, and waits in memory until then. This writer ends in the same way as a `WriteHandle`,
    with the same consequences for unconfirmed entries.
    """

    def __init__(self, thread: LoopThread, handle: aio.AdvancedWriteHandle) -> None:
        super().__init__(thread, handle)
        self._bytes_max = handle.pending_bytes_max
        self._room = BackPressure(thread)
        thread.call_soon(self._listen)

    @property
    def first_gap(self) -> int:
        """The lowest entry id that has not been appended yet. Until this entry is appended, neither it nor any later
        entry can be confirmed."""
        return self._twin.first_gap

    append = waiting_for(aio.AdvancedWriteHandle.append)

    @copy_docstring(aio.AdvancedWriteHandle.append_async)
    def append_async(self, entry_id: int, payload: Payload) -> Future[int]:
        payload = as_bytes(payload)
        self._thread.check_process()
        with self._room.lock:
            self._room.wait_while_full(lambda: self._may_take(entry_id))
            self._room.enter(bytes_of(payload))
            return self._thread.submit(self._append(entry_id, payload))

    append_batch = waiting_for(aio.AdvancedWriteHandle.append_batch)
    append_nowait = asking(aio.AdvancedWriteHandle.append_nowait)
    confirmed = waiting_for(aio.AdvancedWriteHandle.confirmed)
    flush = waiting_for(aio.AdvancedWriteHandle.flush)
    force = waiting_for(aio.AdvancedWriteHandle.force)

    @copy_docstring(aio.AdvancedWriteHandle.close)
    def close(self) -> None:
        with closed_once(self._twin):
            self._run(self._twin.close)

    def _may_take(self, entry_id: int) -> bool:
        if self._twin.has_ended or entry_id == self.first_gap:
            return True
        return self._room.handed_bytes + self._twin.unconfirmed_bytes < self._bytes_max

    def _listen(self) -> None:
        self._twin.on_progress = self._room.wake

    async def _append(self, entry_id: int, payload: bytes) -> int:
        try:
            future = await self._twin.append_async(entry_id, payload)
        finally:
            self._room.leave(bytes_of(payload))
        return await future


class ReadHandle(BlockingHandle[aio.ReadHandle]):
    """A ledger opened for reading. Created by `LedgerClient.open_ledger`; may be used from several threads.

    Never returns bytes whose digest, ledger id or entry id differs from what was requested, and, except in
    `read_unconfirmed`, nothing after the last entry known to be confirmed. A bookie that is slow or down costs only
    time while another replica of the entry is available. Iterators may be abandoned half-way, or closed: their
    resources are freed.
    """

    @property
    def created_at(self) -> datetime | None:
        """When the ledger was created, in UTC, by its creator's clock; None if this is not recorded."""
        return self._twin.created_at

    @property
    def closed_at(self) -> datetime | None:
        """When the ledger was closed, in UTC, by the clock of the client that closed it; None if this is not recorded,
        or if the ledger is still open as far as this reader knows."""
        return self._twin.closed_at

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is final."""
        return self._twin.is_closed

    @property
    def length_bytes(self) -> int | None:
        """Payload bytes of the entries through `last_add_confirmed`; None if no bookie has reported them."""
        return self._twin.length_bytes

    @property
    def writer_address(self) -> str | None:
        """Host and port from which the ledger's writer last sent a message, as seen by a bookie that was asked for the
        last-add-confirmed; None for a closed ledger, or if no bookie could report them."""
        return self._twin.writer_address

    read = in_items(aio.ReadHandle.read, aio.ReadHandle.pages, entries_of)

    def __iter__(self) -> Iterator[Entry]:
        """Yields all confirmed entries: `for entry in reader` is `for entry in reader.read()`."""
        return self.read()

    pages = iterating(aio.ReadHandle.pages)
    read_entry = waiting_for(aio.ReadHandle.read_entry)
    read_batch = waiting_for(aio.ReadHandle.read_batch)
    read_unconfirmed = in_items(
        aio.ReadHandle.read_unconfirmed, aio.ReadHandle.read_unconfirmed_pages, entries_of
    )
    read_unconfirmed_pages = iterating(aio.ReadHandle.read_unconfirmed_pages)
    tail = in_items(aio.ReadHandle.tail, aio.ReadHandle.tail_pages, entries_of)
    tail_pages = iterating(aio.ReadHandle.tail_pages)
    poll = waiting_for(aio.ReadHandle.poll)
    try_read_last_add_confirmed = waiting_for(aio.ReadHandle.try_read_last_add_confirmed)
    read_last_add_confirmed = waiting_for(aio.ReadHandle.read_last_add_confirmed)

    def close(self) -> None:
        """Does nothing, because connections belong to the client."""


class Salvage(BlockingFacade[aio.Salvage]):
    """The available entries of a ledger on live bookies.

    Created by `LedgerClient.salvage_ledger`; may be used from several threads. Each entry is verified by its digest.
    Entries after `proven_through`, the last entry that is proven to be confirmed, are included, although they may not
    be part of the ledger. Entries that no bookie has, or that cannot be read, are reported as gaps. Nothing is fenced
    or changed. `silent` lists bookies that could not be asked, or that stopped answering at some entry, each with the
    reason.
    """

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as it was found."""
        return self._twin.record

    @property
    def proven_through(self) -> int:
        """The last entry that is proven to be confirmed; entries after it may not be part of the ledger."""
        return self._twin.proven_through

    @property
    def silent(self) -> Mapping[str, str]:
        """Bookies that could not be asked at all or from some entry on, and the reasons."""
        return self._twin.silent

    @property
    def unsure(self) -> list[str]:
        """Bookies that answered but cannot rule out that there are further entries. The list is complete once all parts
        have been yielded."""
        return self._twin.unsure

    parts = iterating(aio.Salvage.parts)


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
    """A client of one cluster. Use it as `with LedgerClient(uri) as client`.

    `metadata_uri` specifies the cluster's metadata store:

        etcd://HOST:PORT[,HOST:PORT...]/PREFIX    etcd, for example etcd://etcd1:2379,etcd2:2379,etcd3:2379/prod
        etcds://HOST:PORT[,HOST:PORT...]/PREFIX   the same with TLS
        sqlite:///ABSOLUTE/PATH.db                a file on one machine, such as sqlite:///var/lib/bookledger/metadata.db

    A `pathlib.Path` to an SQLite file is also accepted. If `metadata_uri` is omitted, the environment variable
    BOOKLEDGER_METADATA specifies the store. Raises BadMetadataUri if neither is given.

    May be used from several threads. After `close`, every call on the client and its handles raises ClientClosed; so
    does a call that was waiting at the time. The client is also closed at the end of the program. In a process forked
    later, every call raises ClientForked: create a new client there. In a callback of an append's future, a blocking
    call raises WouldDeadlock, because callbacks run on the client's thread.
    """

    def __init__(self, metadata_uri: UriOrPath | None = None, *, config: ClientConfig | None = None) -> None:
        super().__init__(aio.LedgerClient(metadata_uri, config=config))

    @copy_docstring(aio.LedgerClient.close)
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

    @copy_docstring(aio.LedgerClient.election)
    def election(self, name: str) -> Election:
        return Election(self._thread, self._twin.election(name))
