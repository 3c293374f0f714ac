"""The applications of a run: writers, recoverers, readers and a deleter, each with a client of its own.

Every operation is a task that may be cancelled at a random moment, must end within its limit, and may fail only
with the errors that the client documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from grpc.aio import AioRpcError

from ledgers.aio import LedgerClient
from ledgers.creating.new_ledger import NewLedger
from ledgers.errors import LedgerError
from metadata.errors import MetadataError
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.world import Violation

from .site import Site
from .watch import Watch

T = TypeVar("T")

OPERATION_SECONDS_MAX = 300.0
"""No operation may take longer, whatever happens: each has time limits of its own inside."""

CANCEL_SECONDS_MAX = 30.0
"""A cancelled operation has to end by then: it may wait for what it started."""

PATIENCE_SECONDS_MAX = 3.0
"""Before an operation is cancelled that is to be."""

CREATE_TRIES_MAX = 20
PAUSE_SECONDS_MAX = 4.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The operation was cancelled by its own caller."""


class Board:
    """What the applications tell each other: ledgers by the names of their writers."""

    def __init__(self) -> None:
        self.ledgers: dict[str, int | None] = {}
        self._changed = asyncio.Event()

    def tell(self, writer: str, ledger_id: int | None) -> None:
        """Its ledger's id, or None: it could not create one."""
        self.ledgers[writer] = ledger_id
        self._changed.set()

    async def ledger_of(self, writer: str) -> int | None:
        while writer not in self.ledgers:
            self._changed.clear()
            await self._changed.wait()
        return self.ledgers[writer]


@dataclass(slots=True)
class Setting:
    """What every application of a run is given."""

    site: Site
    watch: Watch
    board: Board
    new_ledger: NewLedger
    has_big_entries: bool
    cancels_share: float
    recover_at: float | None
    calm: asyncio.Event

    @property
    def password(self) -> bytes:
        return self.new_ledger.password


class Actor:
    """One application. `run` returns when it has done what it wanted to."""

    def __init__(self, name: str, setting: Setting, client: LedgerClient) -> None:
        self.name = name
        self.setting = setting
        self.client = client
        self.chance: Stream = setting.site.world.stream(name)
        self.has_left = False

    async def run(self) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        """Closes the client, whatever is under way."""
        self.has_left = True
        self.note("closes its client")
        await self.client.close()

    def note(self, what: str, *details: object) -> None:
        self.setting.site.world.note(f"{self.name} {what}", *details)

    async def pause(self) -> None:
        await asyncio.sleep(self.chance.unit() ** 2 * PAUSE_SECONDS_MAX)

    async def attempt(
        self,
        what: str,
        work: Coroutine[Any, Any, T],
        *,
        may_cancel: bool = True,
        cancels_share: float | None = None,
    ) -> T | LedgerError | Cancelled:
        """Performs one operation; its value, its error, or that it was cancelled."""
        task = asyncio.create_task(work)
        share = self.setting.cancels_share if cancels_share is None else cancels_share
        is_cancelled = may_cancel and self.chance.happens(share)
        patience = cancelled_after(self.chance) if is_cancelled else None
        await until_over(f"{self.name}: {what}", task, patience, CANCEL_SECONDS_MAX)
        return self._outcome(what, task, is_cancelled)

    def _outcome(self, what: str, task: asyncio.Task[T], is_cancelled: bool) -> T | LedgerError | Cancelled:
        if task.cancelled():
            self.note("%s: cancelled", what)
            if not is_cancelled and not self.has_left:
                raise Violation("errors", f"{self.name}: {what} was cancelled by nobody")
            return Cancelled()
        error = task.exception()
        if error is None:
            self.note("%s: done", what)
            return task.result()
        self.note("%s: %s", what, type(error).__name__)
        return self.expected(what, error)

    def expected(self, what: str, error: BaseException) -> LedgerError:
        """The error, if it is one that the client documents and that does not wrap a bug."""
        if isinstance(error, Violation):
            raise error
        cause = error
        while isinstance(cause, LedgerError) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(error, LedgerError) and isinstance(cause, LedgerError | MetadataError | AioRpcError):
            return error
        raise Violation("errors", f"{self.name}: {what} met {error!r} from {cause!r}") from error


def cancelled_after(chance: Stream) -> float:
    """Seconds after which an operation is cancelled that is to be."""
    return chance.unit() ** 3 * PATIENCE_SECONDS_MAX


async def until_over(
    what: str, task: asyncio.Task[Any], patience: float | None, cancel_seconds_max: float
) -> None:
    """It must end, well or not; with a patience it is cancelled after that, and has its limit then."""
    await asyncio.wait([task], timeout=OPERATION_SECONDS_MAX if patience is None else patience)
    if not task.done() and patience is not None:
        task.cancel()
        await asyncio.wait([task], timeout=cancel_seconds_max)
    if not task.done():
        raise Violation("liveness", f"{what} does not end: {where(task)}")


def where(task: asyncio.Task[Any]) -> str:
    frames = [f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in task.get_stack(limit=5)]
    return " < ".join(reversed(frames))
