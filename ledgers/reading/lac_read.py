"""Reads the last-add-confirmed of an open ledger from its bookies, without fencing; long-polls for later ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from bookie.wire import LacRequest, Status
from metadata.records.ledger_record import BookieRef

from ..errors import BookieUnavailable, NotEnoughAnswers
from ..protocol.quorum import Outcome
from ..tasks import end_tasks
from .ledger_view import LedgerView


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of the bookie at a position: its failure, or whether it had a statement."""

    position: int
    failure: str = ""
    has_statement: bool = False


async def ask_one(view: LedgerView) -> int:
    """Returns the LAC from one statement, which may lag behind the writer. Raises LedgerError if no bookie answers.

    A bookie without a statement may have joined after all entries were written; in that case, waits for the other
    bookies.
    """
    view.cluster.check_process()
    return await _ask(view, every_write_set=False)


async def ask_every_write_set(view: LedgerView) -> int:
    """Returns the LAC from the statements of enough bookies that every possible ack quorum includes one of them.

    Answers without a statement count once all bookies have answered or failed. Raises LedgerError if too few answer.
    """
    view.cluster.check_process()
    return await _ask(view, every_write_set=True)


async def wait_for_news(view: LedgerView) -> None:
    """Long-polls every bookie of the last ensemble; returns when one reports a later LAC, or when the time is up."""
    before = view.last_add_confirmed
    clock = asyncio.get_running_loop().time
    began = clock()
    async with aclosing(_answers(view, int(view.cluster.config.long_poll_seconds * 1000))) as answers:
        async for _ in answers:
            if view.last_add_confirmed > before:
                return
    # No bookie has a later LAC; avoid a tight loop if all of them failed at once.
    await asyncio.sleep(max(0.0, began + view.cluster.config.retry_replacement_seconds - clock()))


async def _ask(view: LedgerView, *, every_write_set: bool) -> int:
    if view.is_closed:
        return view.last_add_confirmed
    enough = partial(_covers, view) if every_write_set else bool
    answered: set[int] = set()
    with_statement: set[int] = set()
    failures: dict[str, str] = {}
    async with aclosing(_answers(view, wait_ms=0)) as answers:
        async for answer in answers:
            if answer.failure:
                failures[str(view.record.fragments[-1].ensemble[answer.position])] = answer.failure
                continue
            answered.add(answer.position)
            if answer.has_statement:
                with_statement.add(answer.position)
                if enough(with_statement):
                    return view.last_add_confirmed
    if enough(answered):
        return view.last_add_confirmed
    raise view.cluster.why_failed(NotEnoughAnswers(view.ledger_id, failures))


def _covers(view: LedgerView, answered: Collection[int]) -> bool:
    return view.striping.coverage.outcome(answered) is Outcome.WON


async def _answers(view: LedgerView, wait_ms: int) -> AsyncGenerator[_Answer, None]:
    """Yields the answers of the last ensemble's bookies as they arrive."""
    asked = {
        asyncio.create_task(_lac_of(view, position, bookie, wait_ms)): position
        for position, bookie in enumerate(view.record.fragments[-1].ensemble)
    }
    pending = set(asked)
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                # A cancelled task in `done` was cancelled by its client, which cancels its calls when it is closed.
                closed = _Answer(asked[task], "the connection was closed")
                yield closed if task.cancelled() else task.result()
    finally:
        await end_tasks(pending)


async def _lac_of(view: LedgerView, position: int, bookie: BookieRef, wait_ms: int) -> _Answer:
    """Asks one bookie for its LAC, and records the answer."""
    known = view.last_add_confirmed
    request = LacRequest(
        bookie.incarnation,
        view.ledger_id,
        wait_beyond=known,
        wait_ms=wait_ms,
        credential=view.credential(bookie),
        identity=view.identity,
    )
    try:
        reply = await view.cluster.bookies.last_add_confirmed(bookie, request)
    except BookieUnavailable as error:
        return _Answer(position, error.why)
    if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
        return _Answer(position, f"{reply.status} {reply.detail}")
    statement = reply.last_add_confirmed
    if statement is not None and not view.digester.is_valid_lac(statement):
        return _Answer(position, "its last-add-confirmed has a wrong digest")
    if reply.writer_address:
        view.writer_address = reply.writer_address
    if statement is not None:
        view.note_lac(statement.last_entry, statement.length_bytes)
    return _Answer(position, has_statement=statement is not None)
