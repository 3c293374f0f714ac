"""All acceptors of a journal at once: performs what the proposer's programs ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from ledgers import ClientForked
from metadata.home_process import HomeProcess

from ..config import JournalConfig
from ..requests import Acceptor, R, Request, SendEdits
from .effects import Acceptors, Answers, Ask, Need, Program, SetEpoch
from .logger import Logger
from .quorum_call import wait_for


class LoggerSet:
    """One writer's channels to all acceptors. Belongs to its event loop."""

    def __init__(self, acceptors: Sequence[Acceptor], config: JournalConfig) -> None:
        self._home = HomeProcess(ClientForked)
        self.config = config
        self.loggers = tuple(Logger(acceptor, config) for acceptor in acceptors)
        self.acceptors = Acceptors(tuple(logger.name for logger in self.loggers))

    async def run(self, steps: Program[R]) -> R:
        """Drives one program to its answer."""
        try:
            effect = next(steps)
            while True:
                match effect:
                    case Ask(what, request, need, seconds_max):
                        effect = steps.send(await self.ask(what, request, need, seconds_max))
                    case SetEpoch(epoch):
                        for logger in self.loggers:
                            logger.channel.set_epoch(epoch)
                        effect = steps.send(None)
        except StopIteration as end:
            return cast("R", end.value)

    async def ask(self, what: str, request: Request[R], need: Need, seconds_max: float) -> Answers[R]:
        """Calls all acceptors, and returns with the answers of a quorum, or with too few of them."""
        return await wait_for(what, self.calls(request), need, seconds_max)

    def calls(self, request: Request[R]) -> list[asyncio.Future[R]]:
        """Calls all acceptors, and waits for none. Raises ClientForked."""
        self._home.check()
        return [logger.call(request) for logger in self.loggers]

    def has_room(self, size: int) -> bool:
        """Whether a majority would take a batch of so many bytes now, or cannot be had any more by waiting."""
        in_sync = [logger.channel for logger in self.loggers if not logger.channel.is_out_of_sync]
        needed = len(self.loggers) // 2 + 1
        return len(in_sync) < needed or sum(channel.has_room(size) for channel in in_sync) >= needed

    async def edits_settled(self, request: SendEdits, calls: list[asyncio.Future[None]]) -> int:
        """The last txid, when a majority has the batch on disk. Raises QuorumFailed, QuorumTimeout."""
        what = f"journal({request.first_txid}-{request.last_txid})"
        seconds_max = self.config.write_txns_seconds_max
        answers = await wait_for(what, calls, Need.MAJORITY, seconds_max)
        self.acceptors.check(what, answers, Need.MAJORITY, seconds_max)
        for logger in self.loggers:
            if (logger.channel.committed_txid or 0) < request.last_txid:
                logger.channel.set_committed(request.last_txid)
                logger.metrics.committed()
        return request.last_txid

    def report(self) -> str:
        """One line for each acceptor."""
        return "\n".join(logger.report() for logger in self.loggers)

    async def close(self) -> None:
        await asyncio.gather(*(logger.close() for logger in self.loggers))
