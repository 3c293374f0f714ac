"""The thread behind the blocking client: nobody waits for ever, whoever calls, closes, drops or forks."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future

import pytest

from ledgers.errors import ClientClosed, LedgerError, NoSuchLedger, WouldDeadlock
from ledgers.loop_thread import LoopThread, in_pages, iterate
from tests.support.aio import run
from tests.support.blocking import in_thread, run_script


async def nothing() -> None:
    """No last work."""


async def hang() -> None:
    await asyncio.Event().wait()


async def counted(ended: list[str], count: int = 3) -> AsyncGenerator[int, None]:
    try:
        for n in range(count):
            yield n
    finally:
        ended.append("ended")


def test_work_runs_there_and_what_it_raises_is_raised_here() -> None:
    async def fail() -> None:
        raise NoSuchLedger(7)

    thread = LoopThread()
    assert thread.run(lambda: asyncio.sleep(0, "done")) == "done"
    with pytest.raises(NoSuchLedger):
        thread.run(fail)
    thread.close(nothing)


class InterruptedLock:
    """A signal arrives while somebody waits for it."""

    def __enter__(self) -> None:
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        raise AssertionError("nobody got in")


@pytest.mark.filterwarnings("error")
def test_an_interrupt_before_the_loop_has_the_work_leaves_nothing_that_was_never_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread, work = LoopThread(), nothing()
    with monkeypatch.context() as interrupted:
        interrupted.setattr(thread, "_accepting", InterruptedLock())
        with pytest.raises(KeyboardInterrupt):
            thread.submit(work)
        with pytest.raises(KeyboardInterrupt):
            thread.run(nothing)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    thread.close(nothing)
    assert not thread._waited_for


SIGNALLED_ELSEWHERE = """
import asyncio, signal, sys, threading
from ledgers.loop_thread import LoopThread
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
thread = LoopThread()
async def hang():
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    await asyncio.Event().wait()
async def nothing(): pass
try:
    thread.run(hang)
finally:
    thread.close(nothing)
"""


def test_the_handler_of_a_signal_that_ends_no_wait_runs_while_a_call_waits() -> None:
    """As of one that comes just before the wait begins: here it comes to the loop's own thread."""
    assert run(run_script(SIGNALLED_ELSEWHERE)) == (7, "")


def test_waiting_on_the_thread_itself_is_refused() -> None:
    thread = LoopThread()
    refused: Future[bool] = Future()

    def wait_there() -> None:
        try:
            thread.run(hang)
        except WouldDeadlock:
            refused.set_result(thread.is_current)

    thread.call_soon(wait_there)
    assert refused.result(10)
    assert not thread.is_current
    thread.close(nothing)


def test_a_caller_with_the_ident_of_the_ended_thread_may_close_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = LoopThread()
    thread.close(nothing)
    monkeypatch.setattr(thread._thread, "_ident", threading.get_ident())  # as the system may have given it
    assert not thread.is_current
    thread.close(nothing)


def test_closing_ends_those_who_wait_and_everything_later_with_one_error() -> None:
    thread = LoopThread()
    began = threading.Event()

    async def hang_loudly() -> None:
        began.set()
        await hang()

    waiting = in_thread(lambda: thread.run(hang_loudly))
    assert began.wait(10)
    thread.close(nothing)
    assert isinstance(waiting(), ClientClosed)
    for late in (
        lambda: thread.run(hang),
        lambda: thread.submit(nothing()),
        lambda: thread.call_soon(print),
    ):
        with pytest.raises(ClientClosed, match="this client is closed"):
            late()
    thread.close(nothing)


def test_the_last_work_is_done_after_all_that_was_accepted() -> None:
    order: list[str] = []

    async def last_work() -> None:
        order.append("last")

    thread = LoopThread()
    thread.call_soon(lambda: order.append("accepted"))
    thread.close(last_work)
    assert order == ["accepted", "last"]


def test_work_that_nobody_waits_for_is_ended_with_the_thread() -> None:
    thread = LoopThread()
    future = thread.submit(hang())
    thread.close(nothing)
    assert future.cancelled()


def test_a_failure_of_the_last_work_is_told_and_the_thread_ends_all_the_same() -> None:
    async def fail() -> None:
        raise NoSuchLedger(7)

    thread = LoopThread()
    with pytest.raises(NoSuchLedger):
        thread.close(fail)
    with pytest.raises(ClientClosed):
        thread.call_soon(print)


def test_an_iterator_gives_every_page_and_ends_its_source() -> None:
    thread, ended = LoopThread(), list[str]()
    assert list(iterate(thread, counted(ended))) == [0, 1, 2]
    thread.close(nothing)
    assert ended == ["ended"]


def test_an_iterator_that_is_dropped_ends_its_source_without_waiting_for_it() -> None:
    thread, ended = LoopThread(), list[str]()
    half_read = iterate(thread, counted(ended))
    assert next(half_read) == 0
    blocked, release = threading.Event(), threading.Event()
    was_released: list[bool] = []

    def stand_still() -> None:
        blocked.set()
        was_released.append(release.wait(5))

    thread.call_soon(stand_still)
    assert blocked.wait(10)
    del half_read  # the loop stands still, and this returns
    release.set()
    while not ended:
        thread.run(lambda: asyncio.sleep(0))
    thread.close(nothing)
    assert was_released == [True]


def test_closing_ends_a_hop_that_waits_for_its_page() -> None:
    asked = threading.Event()

    async def never_more() -> AsyncGenerator[int, None]:
        asked.set()
        await hang()
        yield 0

    thread = LoopThread()
    waiting = in_thread(lambda: list(iterate(thread, never_more())))
    assert asked.wait(10)
    closing = in_thread(lambda: thread.close(nothing))
    assert closing() is None
    assert isinstance(waiting(), ClientClosed)


def test_closing_ends_half_read_sources_before_the_last_work() -> None:
    ended: list[str] = []

    async def outer() -> AsyncGenerator[int, None]:
        async for n in counted(ended):
            yield n

    async def last_work() -> None:
        ended.append("last")

    thread = LoopThread()
    half_read = iterate(thread, outer())
    next(half_read)
    thread.close(last_work)
    assert sorted(ended) == ["ended", "last"]
    with pytest.raises(ClientClosed):
        next(half_read)


def test_an_interrupted_hop_leaves_an_iterator_that_ends_cleanly() -> None:
    """As after control-C: the hop is cancelled while its page is under way, and the end waits its turn."""
    ended: list[str] = []

    async def slow_to_end() -> AsyncGenerator[int, None]:
        try:
            yield 0
            await hang()
        finally:
            await asyncio.sleep(0.01)
            ended.append("ended")

    thread = LoopThread()
    complaints: list[object] = []
    thread._loop.set_exception_handler(lambda _, context: complaints.append(context))
    half_read = iterate(thread, slow_to_end())
    next(half_read)
    interrupted = in_thread(lambda: next(half_read))
    while not thread._waited_for:
        pass
    for hop in list(thread._waited_for):
        thread.call_soon(hop.cancel)
    interrupted()
    while not ended:
        thread.run(lambda: asyncio.sleep(0))
    thread.close(nothing)
    assert not complaints


FORKED = """
import asyncio, os, sys
from ledgers.errors import LedgerError
from ledgers.loop_thread import LoopThread, iterate
async def pages():
    for n in range(9): yield n
async def nothing(): pass
thread = LoopThread()
half_read = iterate(thread, pages())
next(half_read)
child = os.fork()
if child == 0:
    try:
        thread.run(lambda: asyncio.sleep(0))
    except LedgerError as error:
        del half_read
        thread.close(nothing)
        os._exit(7 if type(error).__name__ == "ClientForked" else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert list(half_read) == list(range(1, 9))
thread.close(nothing)
"""


def test_a_thread_that_fork_left_behind_is_not_waited_for_and_the_parents_is_not_disturbed() -> None:
    assert run(run_script(FORKED)) == (0, "")


async def test_items_before_an_error_are_given_before_it_is_raised() -> None:
    async def items() -> AsyncGenerator[int, None]:
        for n in range(5):
            yield n
        raise NoSuchLedger(7)

    seen: list[list[int]] = []
    with pytest.raises(LedgerError):
        async for page in in_pages(items(), 3):
            seen.append(page)
    assert seen == [[0, 1, 2], [3, 4]]
