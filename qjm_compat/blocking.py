"""The blocking journal manager: the asyncio one on an event loop in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from ledgers import ClientConfig
from ledgers.blocking.base_client import BlockingClient
from ledgers.loop_thread import LoopThread, iterate

from . import aio
from .batch import Batch
from .config import AcceptorConfig, JournalConfig
from .edits import EditOp
from .formatting import Formatted
from .manager import input_stream, output_stream
from .manager.input_stream import decoded
from .requests import NamespaceInfo, SegmentState
from .sync.syncer import Synced

T = TypeVar("T")


class QuorumJournalManager(BlockingClient[aio.QuorumJournalManager]):
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
            aio.QuorumJournalManager(
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

    def format(self, namespace: NamespaceInfo, *, force: bool = False) -> Formatted:
        """Formats the journal, or adds acceptors that are new to the others; see the asyncio manager.

        Raises QuorumFailed if every acceptor has the journal already, unless `force`.
        """
        return self._thread.run(self._twin.format(namespace, force=force))

    def sync(self, *, bytes_per_second: float | None = None) -> Synced:
        """Copies finalized segments to the acceptors that lack them. Returns what it did and what is left."""
        return self._thread.run(self._twin.sync(bytes_per_second=bytes_per_second))

    def is_formatted(self) -> bool:
        """Whether any acceptor has the journal."""
        return self._thread.run(self._twin.is_formatted())

    def namespace(self) -> NamespaceInfo:
        """The namespace of the journal's edits."""
        return self._thread.run(self._twin.namespace())

    def recover_unfinalized_segments(self) -> SegmentState | None:
        """Becomes the writer, once; finalizes the segment that the last one left open and returns it."""
        return self._thread.run(self._twin.recover_unfinalized_segments())

    def create_new_unique_epoch(self) -> int:
        """First half of becoming the writer."""
        return self._thread.run(self._twin.create_new_unique_epoch())

    def start_log_segment(self, first_txid: int, layout_version: int | None = None) -> EditLogOutputStream:
        """Begins a segment and returns its output stream."""
        stream = self._thread.run(self._twin.start_log_segment(first_txid, layout_version))
        return EditLogOutputStream(self._thread, stream)

    def finalize_log_segment(self, first_txid: int, last_txid: int) -> None:
        """Ends a segment for ever at a majority."""
        self._thread.run(self._twin.finalize_log_segment(first_txid, last_txid))

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

    def journaled_edits(self, from_txid: int) -> Batch | None:
        """The next edits that a quorum has on disk, None if there are none yet."""
        return self._thread.run(self._twin.journaled_edits(from_txid))

    def tail(self, from_txid: int) -> Iterator[EditOp]:
        """Yields every edit from `from_txid` on as it becomes durable, for ever."""
        for ops in iterate(self._thread, self._twin.tail_batches(from_txid)):
            yield from ops

    def do_pre_upgrade(self) -> None:
        """First step of an upgrade."""
        self._thread.run(self._twin.do_pre_upgrade())

    def do_upgrade(self, namespace: NamespaceInfo) -> None:
        """Second step of an upgrade."""
        self._thread.run(self._twin.do_upgrade(namespace))

    def do_finalize(self) -> None:
        """Gives up the rollback."""
        self._thread.run(self._twin.do_finalize())

    def can_roll_back(self, target_layout_version: int) -> bool:
        """Whether there is a state of this layout to roll back to."""
        return self._thread.run(self._twin.can_roll_back(target_layout_version))

    def do_rollback(self) -> None:
        """Restores the state before the upgrade."""
        self._thread.run(self._twin.do_rollback())

    def discard_segments(self, start_txid: int) -> None:
        """Drops every segment from a txid on."""
        self._thread.run(self._twin.discard_segments(start_txid))

    def get_journal_c_time(self) -> int:
        """The journal's creation time."""
        return self._thread.run(self._twin.get_journal_c_time())

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
        self._stream = stream

    @property
    def first_txid(self) -> int:
        return self._stream.first_txid

    @property
    def next_txid(self) -> int:
        """The transaction that must be written next."""
        return self._stream.next_txid

    @property
    def committed_txid(self) -> int:
        """The last transaction known to be on a quorum."""
        return self._stream.committed_txid

    def write(self, op: EditOp) -> None:
        """Buffers one edit."""
        self._stream.write(op)

    def write_raw(self, records: bytes, num_txns: int) -> None:
        """Buffers op frames as they are."""
        self._stream.write_raw(records, num_txns)

    def should_force_sync(self) -> bool:
        """Whether the buffer is full enough to flush."""
        return self._stream.should_force_sync()

    def set_ready_to_flush(self) -> None:
        """Moves what was written so far to the flush buffer."""
        self._stream.set_ready_to_flush()

    def flush(self) -> int:
        """Waits until the flush buffer is on a quorum; returns the last txid there."""
        return self._thread.run(self._stream.flush())

    def flush_async(self) -> Future[int]:
        """Sends the flush buffer; the future ends when it is on a quorum. Waits while many are in flight."""
        settled = self._thread.run(self._stream.flush_async())
        return self._thread.submit(_result(settled))

    def close(self) -> None:
        """Closes the stream; everything must have been flushed."""
        self._thread.run(self._stream.close())

    def abort(self) -> None:
        """Closes the stream and drops what was not flushed."""
        self._thread.run(self._stream.abort())

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
        self._stream = stream

    @property
    def first_txid(self) -> int:
        return self._stream.first_txid

    @property
    def last_txid(self) -> int:
        return self._stream.last_txid

    @property
    def is_in_progress(self) -> bool:
        return self._stream.is_in_progress

    def __iter__(self) -> Iterator[EditOp]:
        """Yields the edits, decoded."""
        for batch in self.batches():
            yield from decoded(batch, self._stream.layout_version)

    def batches(self) -> Iterator[Batch]:
        """Yields the same edits in batches as they were flushed."""
        return iterate(self._thread, self._stream.batches())
