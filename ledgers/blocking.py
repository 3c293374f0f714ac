"""`LedgerClient` for ordinary code: the asyncio client on one loop thread of its own.

Every method runs its asyncio twin on that thread and waits. Appends are handed over in bulk: while
the loop is busy, what is appended gathers and becomes one batch.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from bookie.wire import ENTRY_BYTES_MAX
from metadata.bookie_registry import Registration
from metadata.ledger_record import DigestType, LedgerRecord

from . import aio
from .config import ClientConfig
from .entry import Entry
from .errors import EntryTooLarge, LedgerError
from .new_ledger import NewLedger
from .write_handle import ENTRY_OVERHEAD_BYTES, check_is_bytes

T = TypeVar("T")

ENTRIES_PER_HOP = 1024
"""Entries fetched from the loop thread at a time when reading."""


class LoopThread:
    """A private event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bookledger-client", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine there and waits; an interrupt of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class LedgerClient:
    """A client of one cluster, named by its metadata URI. Use as `with LedgerClient(uri) as client`.

    May be used from several threads. Not across fork(): make one in each process.
    """

    def __init__(self, metadata_uri: str, *, config: ClientConfig | None = None) -> None:
        self._thread = LoopThread()
        self._client = aio.LedgerClient(metadata_uri, config=config)
        try:
            self._thread.run(self._client.connect())
        except BaseException:
            self._thread.close()
            raise

    def close(self) -> None:
        """Ends all connections and the thread. Closing twice is fine."""
        if not self._thread.loop.is_closed():
            self._thread.run(self._client.close())
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_ledger(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum: int | None = None,
        ack_quorum: int | None = None,
        ledger_id: int | None = None,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
    ) -> WriteHandle:
        """A new ledger and its writer; see `ledgers.aio.LedgerClient.create_ledger`."""
        handle = self._thread.run(
            self._client.create_ledger(
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                ledger_id=ledger_id,
                digest=digest,
                password=password,
                custom_metadata=custom_metadata,
            )
        )
        return WriteHandle(self._thread, handle)

    def create_ledger_adv(self, new: NewLedger | None = None) -> AdvancedWriteHandle:
        """A new ledger whose writer chooses the entry ids; see `ledgers.aio.LedgerClient.create_ledger_adv`."""
        return AdvancedWriteHandle(self._thread, self._thread.run(self._client.create_ledger_adv(new)))

    def reserve_ledger(self, new: NewLedger) -> int:
        """A new ledger without a writer, for another process to claim; returns its id."""
        return self._thread.run(self._client.reserve_ledger(new))

    def claim_ledger(self, ledger_id: int, *, password: bytes = b"") -> WriteHandle:
        """Becomes the one writer of a reserved ledger. Raises LedgerClosed when it has or had one."""
        claimed = self._client.claim_ledger(ledger_id, password=password)
        return WriteHandle(self._thread, self._thread.run(claimed))

    def open_ledger(self, ledger_id: int, *, recovery: bool = True, password: bytes = b"") -> ReadHandle:
        """A reader; recovers the ledger first unless told not to. See `ledgers.aio.LedgerClient.open_ledger`."""
        opened = self._client.open_ledger(ledger_id, recovery=recovery, password=password)
        return ReadHandle(self._thread, self._thread.run(opened))

    def list_ledgers(self) -> Iterator[LedgerRecord]:
        """Every ledger's metadata, in id order."""
        return _iterate(self._thread, self._client.list_ledgers())

    def describe_ledger(self, ledger_id: int) -> LedgerRecord:
        """One ledger's metadata. Raises NoSuchLedger."""
        return self._thread.run(self._client.describe_ledger(ledger_id))

    def delete_ledger(self, ledger_id: int) -> None:
        """Deletes a ledger, open or closed. Raises NoSuchLedger. There is no way back."""
        self._thread.run(self._client.delete_ledger(ledger_id))

    def list_bookies(self) -> list[Registration]:
        """Every registered bookie."""
        return self._thread.run(self._client.list_bookies())


class WriteHandle:
    """The one writer of a ledger; see `ledgers.write_handle.WriteHandle` for what it promises."""

    def __init__(self, thread: LoopThread, handle: aio.WriteHandle) -> None:
        self._thread = thread
        self._handle = handle
        self._bytes_max = handle._config.pending_bytes_max
        self._handed: deque[tuple[bytes, Future[int]]] = deque()
        self._handed_bytes = 0
        self._scheduled = False
        self._changed = threading.Condition()
        thread.loop.call_soon_threadsafe(self._listen)

    @property
    def ledger_id(self) -> int:
        return self._handle.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this writer last knew it to stand."""
        return self._handle.record

    @property
    def last_add_confirmed(self) -> int:
        """The last confirmed entry; −1 before the first."""
        return self._handle.last_add_confirmed

    def append(self, payload: bytes) -> int:
        """Appends one entry; returns its id when the ack quorum has it on disk."""
        return self.append_async(payload).result()

    def append_async(self, payload: bytes) -> Future[int]:
        """Takes one entry in; returns the future of its id. Ids follow the order of these calls.

        Waits while `pending_bytes_max` are unconfirmed. Raises EntryTooLarge (the writer goes on), or what
        has ended the writer; what ends it later is the future's error, and that of `flush` and `close`.
        """
        check_is_bytes(payload)
        if len(payload) > ENTRY_BYTES_MAX:
            raise EntryTooLarge(len(payload), ENTRY_BYTES_MAX)
        future: Future[int] = Future()
        with self._changed:
            while (
                self._handed_bytes + self._handle.pending_bytes >= self._bytes_max
                and not self._handle.has_ended
            ):
                self._changed.wait()
            if self._handle.failure is not None:
                raise self._handle.failure
            self._handed.append((payload, future))
            self._handed_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
            if not self._scheduled:
                self._scheduled = True
                self._thread.loop.call_soon_threadsafe(self._take_handed)
        return future

    def flush(self) -> None:
        """Waits for all appends so far; raises what ended the writer, naming the first unconfirmed entry."""
        self._thread.run(self._flush())

    def close(self) -> None:
        """Flushes and closes the ledger at its last confirmed entry; raises what ended the writer."""
        self._thread.run(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LedgerError):
            with suppress(LedgerError):  # the block already raises what went wrong
                self.close()
        else:
            self.close()

    # --- on the loop's thread -------------------------------------------------------------------

    def _listen(self) -> None:
        self._handle.on_progress = self._progress

    def _take_handed(self) -> None:
        with self._changed:
            handed, self._handed = self._handed, deque()
            self._handed_bytes = 0
            self._scheduled = False
            for payload, future in handed:
                try:
                    self._handle.submit(payload, future)
                except LedgerError as error:
                    future.set_exception(error)
            self._changed.notify_all()

    def _progress(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _flush(self) -> None:
        self._take_handed()
        await self._handle.flush()

    async def _close(self) -> None:
        self._take_handed()
        await self._handle.close()


class AdvancedWriteHandle:
    """A writer with ids from the caller; see `ledgers.advanced_write_handle` for what it promises."""

    def __init__(self, thread: LoopThread, handle: aio.AdvancedWriteHandle) -> None:
        self._thread = thread
        self._handle = handle

    @property
    def ledger_id(self) -> int:
        return self._handle.ledger_id

    @property
    def last_add_confirmed(self) -> int:
        """The last entry confirmed with all before it; −1 before the first."""
        return self._handle.last_add_confirmed

    def append(self, entry_id: int, payload: bytes) -> int:
        """Appends one entry; returns its id when it and all before it are confirmed."""
        return self._thread.run(self._handle.append(entry_id, payload))

    def append_async(self, entry_id: int, payload: bytes) -> Future[int]:
        """Takes one entry in at once; returns the future of its id, or of what is wrong with it."""
        return asyncio.run_coroutine_threadsafe(self._handle.append(entry_id, payload), self._thread.loop)

    def flush(self) -> None:
        """Waits for every entry before the first gap; raises what ended the writer."""
        self._thread.run(self._handle.flush())

    def close(self) -> None:
        """Closes the ledger before the first gap; entries behind a gap fail with LedgerClosed."""
        self._thread.run(self._handle.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ReadHandle:
    """A ledger opened for reading; see `ledgers.read_handle.ReadHandle` for what it promises."""

    def __init__(self, thread: LoopThread, handle: aio.ReadHandle) -> None:
        self._thread = thread
        self._handle = handle

    @property
    def ledger_id(self) -> int:
        return self._handle.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this reader last saw it."""
        return self._handle.record

    @property
    def is_closed(self) -> bool:
        return self._handle.is_closed

    @property
    def last_add_confirmed(self) -> int:
        """The last entry this reader knows to be confirmed; the last entry, for a closed ledger."""
        return self._handle.last_add_confirmed

    def read(self, first_entry: int = 0, last_entry: int | None = None) -> Iterator[Entry]:
        """The entries first_entry … last_entry (to the last confirmed one by default), in order."""
        return _iterate(self._thread, self._handle.read(first_entry, last_entry))

    def read_entry(self, entry_id: int) -> Entry:
        """One entry."""
        return self._thread.run(self._handle.read_entry(entry_id))

    def tail(self, start: int = 0) -> Iterator[Entry]:
        """Entries as they are confirmed, to the ledger's close. Never fences."""
        return _iterate(self._thread, self._handle.tail(start), at_once=1)

    def try_read_last_add_confirmed(self) -> int:
        """One good answer from a bookie is enough; may lag."""
        return self._thread.run(self._handle.try_read_last_add_confirmed())

    def read_last_add_confirmed(self) -> int:
        """Answers of enough bookies that nothing confirmed can have been missed."""
        return self._thread.run(self._handle.read_last_add_confirmed())

    def close(self) -> None:
        """Nothing to release: connections belong to the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _iterate(thread: LoopThread, items: AsyncIterator[T], at_once: int = ENTRIES_PER_HOP) -> Iterator[T]:
    """An asynchronous iterator as an ordinary one, many items to a hop between the threads."""

    async def some() -> list[T]:
        taken: list[T] = []
        async for item in items:
            taken.append(item)
            if len(taken) == at_once:
                break
        return taken

    async def end() -> None:
        aclose = getattr(items, "aclose", None)
        if aclose is not None:
            await aclose()

    try:
        while taken := thread.run(some()):
            yield from taken
    finally:
        if not thread.loop.is_closed():
            thread.run(end())
