"""Runs sync rounds in the background, one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from ..errors import JournalError
from .syncer import JournalSyncer, Synced

WARNING_SECONDS_MIN = 600.0
"""The minimum time between two warnings about one journal."""

PROBLEMS_LOGGED_MAX = 3
"""Maximum number of problems logged per round; `journal fsck` prints all of them."""

CLOSE_SECONDS_MAX = 5.0
"""How long `close` waits for a copy that it has cancelled."""

Syncers = Callable[[], Awaitable[Mapping[str, JournalSyncer]]]
"""Returns the syncers of the journals to sync now, keyed by journal id."""

log = logging.getLogger(__name__)


class BackgroundSync:
    """Checks every `seconds` for finalized segments that acceptors lack, and copies them. Belongs to its event loop.

    Failures are logged at most once per WARNING_SECONDS_MIN for each journal, and retried in the next round.
    """

    def __init__(self, seconds: float, syncers: Syncers) -> None:
        self._seconds = seconds
        self._syncers = syncers
        self._task: asyncio.Task[None] | None = None
        self._warned_at: dict[str, float] = {}

    def start(self) -> None:
        """Starts the rounds unless they are already running. The first round runs after `seconds`."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stops the rounds. Deletes an unfinished copy that no acceptor has recorded yet."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_SECONDS_MAX)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                for journal_id, syncer in (await self._syncers()).items():
                    self._log_round(journal_id, await syncer.round())
            except JournalError as error:
                self._warn("", f"journals cannot be synced: {error}")
            except Exception:  # writers are not affected; the log has the traceback
                log.exception("a round of syncing journals failed")

    def _log_round(self, journal_id: str, done: Synced) -> None:
        if done.copied or done.finalized:
            log.info(
                "journal %s: %d segments (%d bytes) copied to acceptors that lacked them, %d finalized",
                journal_id,
                done.copied,
                done.bytes,
                done.finalized,
            )
        if done.problems:
            problems = "; ".join(done.problems[:PROBLEMS_LOGGED_MAX])
            more = len(done.problems) - PROBLEMS_LOGGED_MAX
            also = f"; and {more} more" if more > 0 else ""
            self._warn(journal_id, f"journal {journal_id} is not up to date everywhere: {problems}{also}")

    def _warn(self, journal_id: str, what: str) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._warned_at.get(journal_id, -WARNING_SECONDS_MIN) + WARNING_SECONDS_MIN:
            self._warned_at[journal_id] = now
            log.warning("%s", what)
