"""Checkpoints bring the index up to the log while appends and reads continue.

A checkpoint is due after a given number of log bytes, frames or seconds. It runs in its own thread, and writes the
ledger states as they were when it began.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec

from ..config import BookieConfig
from ..errors import IndexUnusable
from ..index.index import Index
from ..log_context import thread_of
from ..uncancellable import uncancellable

log = logging.getLogger(__name__)

P = ParamSpec("P")


CHANGE_BYTES = 4 * 1024 * 1024
"""Upper bound on what a single space-freeing change adds to the index."""


class Checkpointer:
    """Runs checkpoints. All methods belong to the event loop."""

    def __init__(
        self,
        config: BookieConfig,
        index: Index,
        ledger_row: Callable[[int], bytes],
        disk_is_low: Callable[[], bool],
        on_done: Callable[[], None] = lambda: None,
        release: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._config = config
        self._disk_is_low = disk_is_low
        self._on_done = on_done
        self._release = release
        self._index = index
        self._ledger_row = ledger_row
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bookie-checkpoint", initializer=thread_of())
        self._position = index.checkpoint_position
        self._applied_at = -1
        self._log_bytes = 0
        self._changed: set[int] = set()
        self._writing: set[int] = set()
        self._due = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self.has_failed = False
        """Whether writing the index failed for a reason other than a full disk."""

    def changed(self, ledger_id: int, position: int) -> None:
        """Marks the ledger's state as changed since the last checkpoint. The change was made by the record at this
        position."""
        self._changed.add(ledger_id)
        self._applied_at = position

    @property
    def position(self) -> int:
        """The log before this position is on disk and applied."""
        return self._position

    @property
    def is_behind(self) -> bool:
        """Whether a record has been applied that no sync has covered yet. Such a record lies beyond any checkpoint, so
        replay finds it after a restart."""
        return self._applied_at >= self._position

    def is_dirty(self, ledger_id: int) -> bool:
        """Returns whether the index may lack the ledger's current state."""
        return ledger_id in self._changed or ledger_id in self._writing

    def log_grew(self, position: int, size: int) -> None:
        """Records that the log is on disk and has been applied up to `position`, `size` bytes more than before."""
        assert position >= self._position
        self._position = position
        self._log_bytes += size
        if (
            self._log_bytes >= self._config.checkpoint_log_bytes_max
            or self._index.recent_frames >= self._config.checkpoint_frames_max
        ):
            self._due.set()

    async def run_when_due(self) -> None:
        """Runs checkpoints when due, until cancelled. Any error other than a full disk ends this task and with it the
        bookie."""
        while True:
            try:
                async with asyncio.timeout(self._config.checkpoint_seconds_max):
                    await self._due.wait()
            except TimeoutError:  # no traffic: checkpoint the rest
                pass
            await self.run_if_there_is_room()

    async def run_if_there_is_room(self) -> None:
        """Brings the index up to the log, or postpones this if the disk is nearly full (rule B4)."""
        try:
            await self.run_now()
        except IndexUnusable as error:
            if not self._disk_is_low():
                self.has_failed = True
                raise
            log.warning("no disk space to update the index, trying again later: %s", error)

    async def run_for_space(self) -> None:
        """Like `run_now`, but uses the reserve if necessary, because the checkpoint helps to free space (rule B4)."""
        try:
            await self.run_now()
        except IndexUnusable:
            if not self._disk_is_low() or not self._release(CHANGE_BYTES):
                raise
            await self.run_now()

    async def run_now(self) -> None:
        """Brings the index up to the current end of the log."""
        async with self._one_at_a_time:
            self._due.clear()
            is_current = self._position == self._index.checkpoint_position
            if is_current and not self._changed and not self._index.has_changes:
                return
            self._index.begin_checkpoint()
            position, self._log_bytes = self._position, 0
            changed, self._changed = self._changed, set()
            self._writing = changed
            rows = [(ledger_id, self._ledger_row(ledger_id)) for ledger_id in sorted(changed)]
            commit = self._in_thread(self._index.commit_checkpoint, position, rows)
            try:
                await uncancellable(commit)
            finally:
                # Cancellation does not stop the transaction, so the transaction's outcome is what counts.
                self._writing = set()
                if commit.exception() is None:
                    self._index.end_checkpoint()
                    self._on_done()
                else:
                    self._changed |= changed
                    self._index.abandon_checkpoint()

    async def apart(self, change: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Runs an idempotent change of the index between two checkpoints. Raises IndexUnusable.

        The change ultimately frees space, so it may use the reserve if the disk has no space (rule B4).
        """
        try:
            await self._apart(change, *args, **kwargs)
        except IndexUnusable:
            if not self._disk_is_low() or not self._release(CHANGE_BYTES):
                raise
            await self._apart(change, *args, **kwargs)

    async def _apart(self, change: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        async with self._one_at_a_time:
            await uncancellable(self._in_thread(partial(change, *args, **kwargs)))

    def _in_thread(self, work: Callable[..., None], *arguments: object) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def close(self) -> None:
        async with self._one_at_a_time:
            self._thread.shutdown()
