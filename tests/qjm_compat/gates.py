"""Acceptors and copies that hold back, refuse or spoil what real ones answer, when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from qjm_compat import JournalError
from qjm_compat.acceptor.copying import SegmentContent, SegmentReader
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.batch import Batch
from qjm_compat.manager.logger import Logger
from qjm_compat.requests import Acceptor, BatchDone, R, Request, SendEdits
from tests.support.aio import until_true

C = TypeVar("C", bound=Request[Any])


class InFront:
    """Stands before an acceptor, and passes everything on as a call."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self.name = acceptor.name

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        return False

    async def call(self, request: Request[R]) -> R:
        return await self.acceptor.call(request)

    async def close(self) -> None:
        await self.acceptor.close()


class Gate(InFront):
    """An acceptor whose answers wait while the gate is closed; `refusal` is what it says instead of acting."""

    def __init__(self, acceptor: Acceptor) -> None:
        super().__init__(acceptor)
        self.calls: list[Request[Any]] = []
        self.refusal: JournalError | None = None
        self._may_answer = asyncio.Event()
        self.open()

    def called(self, kind: type[C]) -> list[C]:
        """The calls of one kind."""
        return [call for call in self.calls if isinstance(call, kind)]

    def open(self) -> None:
        self._may_answer.set()

    def shut(self) -> None:
        self._may_answer.clear()

    async def call(self, request: Request[R]) -> R:
        self.calls.append(request)
        if self.refusal is not None:
            raise self.refusal
        answer = await self.acceptor.call(request)
        await self._may_answer.wait()
        return answer

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        """Past an open gate batches go as fast as they can."""
        is_open = self._may_answer.is_set() and self.refusal is None
        if not is_open or not self.acceptor.begin(request, done):
            return False
        self.calls.append(request)
        return True


def gates_of(manager: QuorumJournalManager) -> list[Gate]:
    """A gate before each acceptor."""
    gates = []
    for logger in manager._set.loggers:
        gate = Gate(logger.acceptor)
        logger.acceptor = gate
        gates.append(gate)
    return gates


async def leave_out(logger: Logger) -> None:
    """Makes an acceptor miss what is written from now on: not before it has begun the segment, which takes it in."""
    await until_true(lambda: logger.channel.is_idle)
    logger.channel.is_out_of_sync = True


Spoil = Callable[[Batch], Batch | None]
"""What becomes of a batch on its way to the reader; with None the copy ends."""


class SpoiltCopy:
    """A real copy of which batches arrive otherwise than they were written; `reads` are the txids it was asked for."""

    def __init__(self, copy: SegmentReader, spoil: Spoil) -> None:
        self._copy = copy
        self._spoil = spoil
        self.reads: list[int] = []

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        self.reads.append(from_txid)
        content = await self._copy.read_segment(start_txid, from_txid, in_progress_ok=in_progress_ok)
        return replace(content, batches=self._spoilt(content.batches))

    async def _spoilt(self, batches: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
        async with aclosing(batches) as whole:
            async for batch in whole:
                spoilt = self._spoil(batch)
                if spoilt is None:
                    return
                yield spoilt
