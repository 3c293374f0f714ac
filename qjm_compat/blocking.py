"""The blocking journal manager: runs the asyncio one on an event loop in a separate thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self

from ledgers import ClientConfig
from ledgers.blocking.base_client import BlockingClient
from ledgers.blocking.twin_calls import (
    BlockingFacade,
    asking,
    copy_docstring,
    in_items,
    iterating,
    waiting_for,
)

from .aio import QuorumJournalManager as Manager
from .config import AcceptorConfig, JournalConfig
from .edits import EditOp
from .manager import input_stream, output_stream
from .manager.input_stream import decoded
from .requests import NamespaceInfo


class QuorumJournalManager(BlockingClient[Manager]):
    """A journal. To write to it, become its writer with `recover_unfinalized_segments`; reading needs no preparation.

    See `qjm_compat.aio.QuorumJournalManager` for the kinds of acceptors. Use as `with`. Safe for use by several
    threads.
    """

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
        """This writer's epoch; None until it has one."""
        return self._twin.epoch

    @copy_docstring(Manager.close)
    def close(self) -> None:
        super().close()

    format = waiting_for(Manager.format)
    is_formatted = waiting_for(Manager.is_formatted)
    namespace = waiting_for(Manager.namespace)

    sync = waiting_for(Manager.sync)

    recover_unfinalized_segments = waiting_for(Manager.recover_unfinalized_segments)
    create_new_unique_epoch = waiting_for(Manager.create_new_unique_epoch)
    finalize_log_segment = waiting_for(Manager.finalize_log_segment)

    @copy_docstring(Manager.start_log_segment)
    def start_log_segment(self, first_txid: int, layout_version: int | None = None) -> EditLogOutputStream:
        stream = self._run(partial(self._twin.start_log_segment, first_txid, layout_version))
        return EditLogOutputStream(self._thread, stream)

    @copy_docstring(Manager.purge_logs_older_than)
    def purge_logs_older_than(self, min_txid_to_keep: int) -> None:
        self._thread.call_soon(lambda: self._twin.purge_logs_older_than(min_txid_to_keep))

    @copy_docstring(Manager.select_input_streams)
    def select_input_streams(
        self,
        from_txid: int = 0,
        *,
        in_progress_ok: bool = False,
        only_durable: bool = True,
        gaps_ok: bool = False,
    ) -> list[EditLogInputStream]:
        streams = self._run(
            partial(
                self._twin.select_input_streams,
                from_txid,
                in_progress_ok=in_progress_ok,
                only_durable=only_durable,
                gaps_ok=gaps_ok,
            )
        )
        return [EditLogInputStream(self._thread, stream) for stream in streams]

    journaled_edits = waiting_for(Manager.journaled_edits)
    tail = in_items(Manager.tail, Manager.tail_batches, iter)

    do_pre_upgrade = waiting_for(Manager.do_pre_upgrade)
    do_upgrade = waiting_for(Manager.do_upgrade)
    do_finalize = waiting_for(Manager.do_finalize)
    can_roll_back = waiting_for(Manager.can_roll_back)
    do_rollback = waiting_for(Manager.do_rollback)
    discard_segments = waiting_for(Manager.discard_segments)
    get_journal_c_time = waiting_for(Manager.get_journal_c_time)

    metrics = asking(Manager.metrics)
    report = asking(Manager.report)


async def _result(flush: asyncio.Future[int]) -> int:
    return await asyncio.shield(flush)


class EditLogOutputStream(BlockingFacade[output_stream.EditLogOutputStream]):
    """The output stream of one segment. One thread writes to it at a time; another thread may flush it.

    `write` fills a buffer; `set_ready_to_flush` swaps the buffers, so that later edits fill the other one; when `flush`
    returns, the swapped-out buffer is on the disks of a quorum. After a failed flush, the stream accepts no further
    edits, and only a recovery decides whether the unconfirmed edits are in the journal.
    """

    @property
    def first_txid(self) -> int:
        return self._twin.first_txid

    @property
    def next_txid(self) -> int:
        """The txid that the next edit must have."""
        return self._twin.next_txid

    @property
    def committed_txid(self) -> int:
        """The last txid known to be on the disks of a quorum; initially the txid before the segment's first."""
        return self._twin.committed_txid

    @copy_docstring(output_stream.EditLogOutputStream.write)
    def write(self, op: EditOp) -> None:
        self._twin.write(op)

    @copy_docstring(output_stream.EditLogOutputStream.write_raw)
    def write_raw(self, records: bytes, num_txns: int) -> None:
        self._twin.write_raw(records, num_txns)

    @copy_docstring(output_stream.EditLogOutputStream.should_force_sync)
    def should_force_sync(self) -> bool:
        return self._twin.should_force_sync()

    @copy_docstring(output_stream.EditLogOutputStream.set_ready_to_flush)
    def set_ready_to_flush(self) -> None:
        self._twin.set_ready_to_flush()

    flush = waiting_for(output_stream.EditLogOutputStream.flush)
    close = waiting_for(output_stream.EditLogOutputStream.close)
    abort = waiting_for(output_stream.EditLogOutputStream.abort)

    @copy_docstring(output_stream.EditLogOutputStream.flush_async)
    def flush_async(self) -> Future[int]:
        settled = self._run(self._twin.flush_async)
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


class EditLogInputStream(BlockingFacade[input_stream.EditLogInputStream]):
    """The edits `first_txid` … `last_txid` of one segment. May be read several times.

    If a copy fails, is damaged or ends early, reading continues with another copy, at the first transaction that was
    not read.
    """

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
        """Yields the decoded edits."""
        for batch in self.batches():
            yield from decoded(batch, self._twin.layout_version)

    batches = iterating(input_stream.EditLogInputStream.batches)
