"""`python -m tests.qjm_compat.doomed`: makes writers that end themselves at a given step, by fork, which is quick.

Each line on standard input is a `Doom` as JSON, and the answer says how far its writer came: killed, stopped (its
process then waits for SIGCONT), or ended. `{"wait": PID}` lets a stopped one go on, and answers with its end.
Acceptors run inside of the writer's process: what a kill ends is both.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qjm_compat import JournalError, QuorumFailed
from qjm_compat.acceptor.journal import Journal
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import Acceptor, R, Request

from .auditor import confirmed_batch
from .gates import InFront
from .journals import frames, manager_on

SEGMENTS, FLUSHES, TXNS = 2, 2, 3
"""What a writer writes that nothing happens to."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Doom:
    """A writer's end: the signal `how` from its own hand, before or after the `number`th step of a kind."""

    uri: str
    journal_id: str
    acceptors: int
    notes: str
    step: Literal["call", "effect"]
    number: int
    when: Literal["before", "after"] = "before"
    how: int = signal.SIGKILL


class Steps:
    """Counts steps, and ends the process at the one that was given."""

    def __init__(self, doom: Doom) -> None:
        self._doom = doom
        self.count = 0

    async def around(self, step: Callable[[], Awaitable[R]]) -> R:
        self.count += 1
        is_the_one = self.count == self._doom.number
        if is_the_one and self._doom.when == "before":
            os.kill(os.getpid(), self._doom.how)
        answer = await step()
        if is_the_one and self._doom.when == "after":
            os.kill(os.getpid(), self._doom.how)
        return answer


class DoomedAcceptor(InFront):
    """An acceptor whose calls are the steps."""

    def __init__(self, acceptor: Acceptor, steps: Steps) -> None:
        super().__init__(acceptor)
        self._steps = steps

    async def call(self, request: Request[R]) -> R:
        return await self._steps.around(lambda: self.acceptor.call(request))


def doom_manager(manager: QuorumJournalManager, doom: Doom) -> Steps:
    """Counts the calls to all acceptors, or what these ask of ledgers and metadata."""
    steps = Steps(doom)
    if doom.step == "call":
        for logger in manager._set.loggers:
            logger.acceptor = DoomedAcceptor(logger.acceptor, steps)
        return steps
    for journal in manager._journals.values():
        assert isinstance(journal, Journal)
        setattr(journal, "_perform", counted(journal._perform, steps))  # noqa: B010 — mypy knows it as a method
    return steps


def counted(perform: Callable[[Any], Awaitable[Any]], steps: Steps) -> Callable[[Any], Awaitable[Any]]:
    async def perform_and_count(effect: Any) -> Any:
        return await steps.around(lambda: perform(effect))

    return perform_and_count


async def write_all(doom: Doom) -> dict[str, Any]:
    """A whole writer's life, with notes of what was confirmed; says what became of it."""
    async with manager_on(doom.uri, doom.acceptors, journal_id=doom.journal_id) as manager:
        steps = doom_manager(manager, doom)
        with open(doom.notes, "a", buffering=1) as notes:  # noqa: ASYNC230 — a writer that has nothing else to do
            try:
                await _write(manager, notes.write)
            except JournalError as error:
                causes = error.errors.values() if isinstance(error, QuorumFailed) else [error]
                return {"error": str(error), "causes": sorted({type(cause).__name__ for cause in causes})}
        return {"steps": steps.count}


async def _write(manager: QuorumJournalManager, note: Callable[[str], object]) -> None:
    recovered = await manager.recover_unfinalized_segments()
    assert recovered is not None
    next_txid = recovered.end_txid + 1
    for _ in range(SEGMENTS):
        out = await manager.start_log_segment(next_txid)
        for _ in range(FLUSHES):
            first = out.next_txid
            records = frames(first, TXNS, "doomed")
            out.write_raw(records, TXNS)
            out.set_ready_to_flush()
            note(confirmed_batch(first, await out.flush(), records, "doomed").line)
        await out.close()
        next_txid = out.next_txid
        await manager.finalize_log_segment(out.first_txid, next_txid - 1)


def spawn(doom: Doom, told: Path) -> int:
    """The pid of a writer, which leaves what it has to say in a file."""
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # also while it is stopped
    try:
        told.write_text(json.dumps(asyncio.run(write_all(doom))))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def outcome(pid: int, told: Path) -> dict[str, Any]:
    """What has become of a writer, once it has stopped or ended."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {"is": "stopped", "pid": pid}
    if os.WIFSIGNALED(status):
        return {"is": "killed", "by": os.WTERMSIG(status)}
    assert os.WEXITSTATUS(status) == 0, f"writer {pid} broke"
    return {"is": "ended", **json.loads(told.read_text())}


def main() -> None:
    told = Path(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            pid = asked["wait"]
            os.kill(pid, signal.SIGCONT)
        else:
            pid = spawn(Doom(**asked), told)
        print(json.dumps(outcome(pid, told)), flush=True)


if __name__ == "__main__":
    main()
