"""Who waits for which entry, and what they are told."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from ledgers.errors import LedgerError
from ledgers.writing.append_futures import AppendFutures


def waiting(count: int) -> tuple[AppendFutures, list[Future[int]]]:
    answers = AppendFutures()
    futures: list[Future[int]] = [Future() for _ in range(count)]
    for future in futures:
        answers.append(future)
    return answers, futures


def results(futures: list[Future[int]]) -> list[int | None]:
    return [future.result() if future.done() else None for future in futures]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_taken_in_together_each_future_is_answered_when_its_entry_is_and_with_its_id(
    seed: int,
) -> None:
    """Single entries, lists of them, and entries for which nobody waits, answered at any place between."""
    rng, answers = Random(seed), AppendFutures()
    futures: dict[int, Future[int]] = {}
    through = -1
    for _ in range(300):
        first, count = answers.next_entry, rng.choice((1, 3, 100))
        mine: list[Future[int]] = [Future() for _ in range(count)]
        match rng.choice(("single", "single", "single", "batch", "each", "nobody", "nobody each", "answer")):
            case "single":
                answers.last_run.append(mine[0])
                futures[first] = mine[0]
            case "batch":
                answers.append(mine[0], count)
                futures[first + count - 1] = mine[0]
            case "each":
                answers.append_each(count, mine)
                futures.update(enumerate(mine, first))
            case "nobody":
                answers.append(None, count)
            case "nobody each":
                answers.append_each(count, [])
            case _:
                through = rng.randint(through, first - 1)
                answers.confirmed(through)
        for entry_id in [entry_id for entry_id in futures if entry_id <= through]:
            assert futures.pop(entry_id).result(timeout=0) == entry_id
        assert not any(future.done() for future in futures.values())
    answers.fail(LedgerError("ended"))
    assert all(isinstance(future.exception(timeout=0), LedgerError) for future in futures.values())


def test_a_cancelled_append_keeps_its_place() -> None:
    answers, futures = waiting(3)
    futures[1].cancel()
    answers.confirmed(2)
    assert (futures[0].result(), futures[2].result()) == (0, 2)


def test_a_flush_waits_for_the_appends_before_it_and_no_later_ones() -> None:
    """Or a flush would never end beside a writer that never pauses."""
    answers, _ = waiting(2)
    flushed: Future[int] = Future()
    answers.flush(flushed)
    answers.append(Future())
    answers.accepted(0)
    assert not flushed.done()
    answers.accepted(1)
    assert flushed.done()
    assert answers.appends_wait


def test_a_force_waits_for_confirmation_and_not_for_acceptance() -> None:
    answers, futures = waiting(2)
    forced: Future[int] = Future()
    answers.force(1, forced)
    answers.accepted(1)
    assert results(futures) == [0, 1]
    assert not forced.done() and answers.any_wait and not answers.appends_wait
    answers.confirmed(0)
    assert not forced.done()
    answers.confirmed(1)
    assert forced.done()


def test_a_failure_reaches_everybody_who_waits() -> None:
    answers, futures = waiting(2)
    others: list[Future[int]] = [Future(), Future()]
    answers.flush(others[0])
    answers.force(1, others[1])
    answers.accepted(0)
    answers.fail(LedgerError("ended"))
    for future in (futures[1], *others):
        with pytest.raises(LedgerError, match="ended"):
            future.result(timeout=0)
    assert not answers.any_wait


async def test_an_append_that_failed_and_that_nobody_looks_at_is_no_complaint_of_the_loop() -> None:
    """What ended the writer is raised by its flush and its close."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    answers = AppendFutures()
    answers.append(loop.create_future())
    answers.fail(LedgerError("ended"))
    gc.collect()
    assert complaints == []
