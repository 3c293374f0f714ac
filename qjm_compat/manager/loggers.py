"""All acceptors of a journal as seen by one writer: performs the effects of the proposer's programs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from ledgers import ClientForked
from metadata.fork_safety.fork_guard import ForkGuard

from ..config import JournalConfig
from ..requests import Acceptor, R, Request, SendEdits
from .batches_under_way import BatchesUnderWay
from .logger import Logger
from .proposer_effects import Acceptors, Answers, CallAcceptors, Need, Program, SetEpoch
from .quorum_call import wait_for


class LoggerSet:
    """One writer's channels to all acceptors. Belongs to the writer's event loop."""

    def __init__(self, acceptors: Sequence[Acceptor], config: JournalConfig) -> None:
        self._home = ForkGuard(ClientForked)
        self.config = config
        self.loggers = tuple(Logger(acceptor, config) for acceptor in acceptors)
        self.acceptors = Acceptors(tuple(logger.name for logger in self.loggers))
        self._batches = BatchesUnderWay(self.acceptors, config.write_txns_seconds_max, self._committed)

    async def run(self, steps: Program[R]) -> R:
        """Runs one program and returns its answer."""
        try:
            effect = next(steps)
            while True:
                match effect:
                    case CallAcceptors(what, request, need, seconds_max, every_answer):
                        calls = self.calls(request)
                        effect = steps.send(
                            await wait_for(what, calls, need, seconds_max, every_answer=every_answer)
                        )
                    case SetEpoch(epoch):
                        for logger in self.loggers:
                            logger.channel.set_epoch(epoch)
                        effect = steps.send(None)
        except StopIteration as end:
            return cast("R", end.value)

    async def ask(self, what: str, request: Request[R], need: Need, seconds_max: float) -> Answers[R]:
        """Calls all acceptors. Returns the answers of a quorum, or fewer if no quorum can be reached in time."""
        return await wait_for(what, self.calls(request), need, seconds_max)

    def calls(self, request: Request[R]) -> list[asyncio.Future[R]]:
        """Calls all acceptors without waiting. Raises ClientForked."""
        self._home.check()
        return [logger.call(request) for logger in self.loggers]

    def has_room(self, size: int) -> bool:
        """Returns whether a batch of this size should be sent now: a majority would accept it, or waiting for room
        would be pointless."""
        in_sync = [logger.channel for logger in self.loggers if not logger.channel.is_out_of_sync]
        needed = self.acceptors.majority.needed
        return len(in_sync) < needed or sum(channel.has_room(size) for channel in in_sync) >= needed

    def send(self, request: SendEdits) -> asyncio.Future[int]:
        """Queues a batch for every acceptor. The future completes with the batch's last txid once a majority has it on
        disk.

        The future may fail with QuorumFailed or QuorumTimeout. Raises ClientForked.
        """
        return self._batches.add(request, self.calls(request))

    def _committed(self, last_txid: int) -> None:
        for logger in self.loggers:
            if (logger.channel.committed_txid or 0) < last_txid:
                logger.channel.set_committed(last_txid)
                logger.metrics.committed()

    def report(self) -> str:
        """Returns a report with one line per acceptor."""
        return "\n".join(logger.report() for logger in self.loggers)

    async def close(self) -> None:
        self._batches.close()
        await asyncio.gather(*(logger.close() for logger in self.loggers))
