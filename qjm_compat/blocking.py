"""The blocking journal manager: the asyncio one on an event loop in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ledgers import ClientConfig
from ledgers.blocking.base_client import BlockingClient
from ledgers.loop_thread import LoopThread, iterate

from .aio import QuorumJournalManager as Manager
from .batch import Batch
from .config import AcceptorConfig, JournalConfig
from .edits import EditOp
from .manager import input_stream, output_stream
from .manager.input_stream import decoded
from .requests import NamespaceInfo
from .sync.syncer import Synced

P = ParamSpec("P")
T = TypeVar("T")


def waiting_for(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The method of an asyncio twin, with its documentation, as one that returns when it is done."""

    @wraps(method)
    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        done: T = self._thread.run(method(self._twin, *arguments, **named))
        return done

    return call


class QuorumJournalManager(BlockingClient[Manager]):
    """A journal; see `qjm_compat.aio.QuorumJournalManager`. Use as `with`. May be used from several threads."""

    def __init__(
        self,
        metadata_uri: str,
        journal_id: str | None = None,
        *,
        namespace: NamespaceInfo | None = None,
        acceptors: Sequence[AcceptorConfig] | None = None,
        config: JournalConfig | None = None,
        client_config: ClientConfig | None = None,
    ) -> None:
        super().__init__(
            Manager(
                metadata_uri,
                journal_id,
                namespace=namespace,
                acceptors=acceptors,
                config=config,
                client_config=client_config,
            )
        )

    @property
    def journal_id(self) -> str:
        return self._twin.journal_id

    @property
    def epoch(self) -> int | None:
        """This writer's epoch, once it has one."""
        return self._twin.epoch

    format = waiting_for(Manager.format)
    is_formatted = waiting_for(Manager.is_formatted)
    namespace = waiting_for(Manager.namespace)

    def sync(self, *, bytes_per_second: float | None = None) -> Synced:
        """Copies finalized segments to the acceptors that lack them. Returns what it did and what is left."""
        return self._thread.run(self._twin.sync(bytes_per_second=bytes_per_second))

    recover_unfinalized_segments = waiting_for(Manager.recover_unfinalized_segments)
    create_new_unique_epoch = waiting_for(Manager.create_new_unique_epoch)
    finalize_log_segment = waiting_for(Manager.finalize_log_segment)

    def start_log_segment(self, first_txid: int, layout_version: int | None = None) -> EditLogOutputStream:
        """Begins a segment and returns its output stream."""
        stream = self._thread.run(self._twin.start_log_segment(first_txid, layout_version))
        return EditLogOutputStream(self._thread, stream)

    def purge_logs_older_than(self, min_txid_to_keep: int) -> None:
        """Deletes segments that end before a txid, without waiting."""
        self._thread.call_soon(lambda: self._twin.purge_logs_older_than(min_txid_to_keep))

    def select_input_streams(
        self,
        from_txid: int = 0,
        *,
        in_progress_ok: bool = False,
        only_durable: bool = True,
        gaps_ok: bool = False,
    ) -> list[EditLogInputStream]:
        """Input streams of the segments with `from_txid` or later, in order."""
        streams = self._thread.run(
            self._twin.select_input_streams(
                from_txid, in_progress_ok=in_progress_ok, only_durable=only_durable, gaps_ok=gaps_ok
            )
        )
        return [EditLogInputStream(self._thread, stream) for stream in streams]

    journaled_edits = waiting_for(Manager.journaled_edits)

    def tail(self, from_txid: int) -> Iterator[EditOp]:
        """Yields every edit from `from_txid` on as it becomes durable, for ever."""
        for ops in iterate(self._thread, self._twin.tail_batches(from_txid)):
            yield from ops

    do_pre_upgrade = waiting_for(Manager.do_pre_upgrade)
    do_upgrade = waiting_for(Manager.do_upgrade)
    do_finalize = waiting_for(Manager.do_finalize)
    can_roll_back = waiting_for(Manager.can_roll_back)
    do_rollback = waiting_for(Manager.do_rollback)
    discard_segments = waiting_for(Manager.discard_segments)
    get_journal_c_time = waiting_for(Manager.get_journal_c_time)

    def metrics(self) -> dict[str, dict[str, int | float | str]]:
        """Counters by Hadoop's names."""
        return self._thread.run(_now(self._twin.metrics))

    def report(self) -> str:
        """Status for operators."""
        return self._thread.run(_now(self._twin.report))


async def _now(ask: Callable[[], T]) -> T:
    """Calls a function on the loop's thread, where what it reports changes."""
    return ask()


async def _result(flush: asyncio.Future[int]) -> int:
    return await asyncio.shield(flush)


class EditLogOutputStream:
    """The output stream of one segment; see `qjm_compat.manager.output_stream.EditLogOutputStream`.

    One thread writes to it at a time; the one that flushes may be another.
    """

    def __init__(self, thread: LoopThread, stream: output_stream.EditLogOutputStream) -> None:
        self._thread = thread
        self._twin = stream

    @property
    def first_txid(self) -> int:
        return self._twin.first_txid

    @property
    def next_txid(self) -> int:
        """The transaction that must be written next."""
        return self._twin.next_txid

    @property
    def committed_txid(self) -> int:
        """The last transaction known to be on a quorum."""
        return self._twin.committed_txid

    def write(self, op: EditOp) -> None:
        """Buffers one edit."""
        self._twin.write(op)

    def write_raw(self, records: bytes, num_txns: int) -> None:
        """Buffers op frames as they are."""
        self._twin.write_raw(records, num_txns)

    def should_force_sync(self) -> bool:
        """Whether the buffer is full enough to flush."""
        return self._twin.should_force_sync()

    def set_ready_to_flush(self) -> None:
        """Moves what was written so far to the flush buffer."""
        self._twin.set_ready_to_flush()

    flush = waiting_for(output_stream.EditLogOutputStream.flush)
    close = waiting_for(output_stream.EditLogOutputStream.close)
    abort = waiting_for(output_stream.EditLogOutputStream.abort)

    def flush_async(self) -> Future[int]:
        """Sends the flush buffer; the future ends when it is on a quorum. Waits while many are in flight."""
        settled = self._thread.run(self._twin.flush_async())
        return self._thread.submit(_result(settled))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()


class EditLogInputStream:
    """The edits of one segment; see `qjm_compat.manager.input_stream.EditLogInputStream`."""

    def __init__(self, thread: LoopThread, stream: input_stream.EditLogInputStream) -> None:
        self._thread = thread
        self._twin = stream

    @property
    def first_txid(self) -> int:
        return self._twin.first_txid

    @property
    def last_txid(self) -> int:
        return self._twin.last_txid

    @property
    def is_in_progress(self) -> bool:
        return self._twin.is_in_progress

    def __iter__(self) -> Iterator[EditOp]:
        """Yields the edits, decoded."""
        for batch in self.batches():
            yield from decoded(batch, self._twin.layout_version)

    def batches(self) -> Iterator[Batch]:
        """Yields the same edits in batches as they were flushed."""
        return iterate(self._thread, self._twin.batches())
