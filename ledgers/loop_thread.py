"""The thread behind the blocking client: runs the event loop of its asyncio twin.

Callers in other threads wait for the loop. No code may wait on the loop's own thread, because that thread runs the
callbacks of futures. Finalisers must never wait: they may run on any thread, even after the loop's thread is gone
because the interpreter is exiting.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - its pools end at exit after this module, which comes later
import ctypes
import inspect
import os
import sys
import threading
import warnings
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from metadata.fork_safety.fork_guard import ForkGuard, NotPickled

from .errors import ClientClosed, ClientForked, LedgerError, WouldDeadlock

T = TypeVar("T")

SIGNAL_SECONDS_MAX = 0.5
"""Maximum delay of a signal handler if the signal arrives just as a call begins to wait, because the system does not
interrupt that wait."""

LastWork = Callable[[], Coroutine[Any, Any, None]]
"""The last work that runs on the loop before the loop's thread ends."""


_unused_loops: list[asyncio.AbstractEventLoop] = []
"""Event loops of closed clients, kept for reuse: as many as there were clients open at once.

gRPC reports cancelled calls to their loop even after the client is closed; if that loop is closed, gRPC logs an error
in the middle of another client's work. gRPC also keeps every loop it has used for as long as any client is open.
"""


def take_loop() -> asyncio.AbstractEventLoop:
    """Returns an idle event loop, or a new one."""
    try:
        return _unused_loops.pop()
    except IndexError:
        return asyncio.new_event_loop()


def give_back_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Keeps a loop for reuse; the caller's work on it must have ended."""
    _unused_loops.append(loop)


def _leave_to_parent() -> None:
    """Leaks the idle loops in a forked child: freeing one would unregister it from an epoll shared with the parent."""
    while _unused_loops:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_unused_loops.pop()))


os.register_at_fork(after_in_child=_leave_to_parent)


class _Call(Generic[T]):
    """A coroutine that runs on the loop while one other thread waits for it.

    A signal handler may raise at any point during that wait. Therefore the wait uses a lock that no other thread
    acquires: a condition might stay locked after an exception, and the loop would then wait for it.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._task: asyncio.Task[T] | None = None
        self._is_over = False
        self._running = threading.Lock()
        self._running.acquire()

    def result(self) -> T:
        """Waits for the result; called once, by the thread that started the call. Raises the coroutine's error or
        CancelledError."""
        while not self._running.acquire(timeout=SIGNAL_SECONDS_MAX):
            pass
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise CancelledError
        try:
            return self._task.result()
        finally:
            del self

    # --- on the loop ----------------------------------------------------------------------------

    def begin(self) -> None:
        if not self._is_over:
            self._task = asyncio.get_running_loop().create_task(self._made())
            self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Ends the wait, however long the coroutine takes to end."""
        if self._task is not None:
            self._task.cancel()
        self._end()

    def _end(self, _: object = None) -> None:
        if not self._is_over:
            self._is_over = True
            self._running.release()

    async def _made(self) -> T:
        return await self._make()


class LoopThread(NotPickled):
    """A private event loop in a thread. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._loop = take_loop()
        self._home = ForkGuard(ClientForked)
        self._is_closed = False
        self._waited_for: set[_Call[Any]] = set()
        self._sources: set[PageSource[Any]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        # Held only briefly, never while waiting. Work accepted under this lock runs before `close`.
        self._accepting = threading.RLock()
        self._forgotten: weakref.finalize[..., LoopThread] | None = None
        # The thread refers only to the loop, so that an unused LoopThread is garbage-collected.
        self._thread = threading.Thread(
            target=partial(_serve, self._loop), name="bookledger-client", daemon=True
        )
        self._thread.start()

    def end_when_forgotten(self, last_work: LastWork, owner: str) -> None:
        """Makes the thread do the last work and end, with a ResourceWarning, once neither the client nor any of its
        handles refers to this object. Never waits."""
        self._forgotten = weakref.finalize(self, _end_forgotten, self._loop, self._home, last_work, owner)
        # Useless at exit: the finaliser does not wait for the thread, which is about to be stopped.
        self._forgotten.atexit = False
        self._last_work = last_work
        _unclosed.add(self)

    @property
    def is_here(self) -> bool:
        """Whether this is the process that created the thread."""
        return self._home.is_here

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop's thread, and so must not wait."""
        # The system may reuse the ident of a thread that has ended.
        return threading.get_ident() == self._thread.ident and self._thread.is_alive()

    def check_open(self) -> None:
        """Raises ClientClosed or ClientForked if the client is no longer usable."""
        self._home.check()
        if self._is_closed or sys.is_finalizing():
            raise ClientClosed

    def check_process(self) -> None:
        """Raises ClientForked in a process forked from the client's process, where the client's locks may stay held
        forever."""
        self._home.check()

    def check_may_wait(self) -> None:
        """Raises WouldDeadlock on the loop's own thread, or ClientForked in a forked process."""
        self.check_process()
        if self.is_current:
            raise WouldDeadlock

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Creates a coroutine on the loop, runs it and waits for it; an interrupt of the caller cancels the coroutine.

        Raises the coroutine's exception, ClientClosed, ClientForked, WouldDeadlock.
        """
        self.check_may_wait()
        self.check_open()  # not under the lock, whose holder may be gone when the interpreter exits
        call = _Call(work)
        try:
            with self._accepting:  # so that `close` finds every call that was accepted
                self.call_soon(call.begin)
                self._waited_for.add(call)
            return call.result()
        except CancelledError:
            if self._is_closed:
                raise ClientClosed from None
            raise
        except BaseException:  # an interrupt may arrive at any moment; if the call is done, this does nothing
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        finally:
            self._waited_for.discard(call)
            del call  # a raised exception refers to this frame, which must not keep the call alive

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on the loop; returns its future at once. Raises ClientClosed, ClientForked."""
        try:
            self.check_process()
            with self._accepting:
                self.check_open()
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            _close_unstarted(work)
            raise

    def call_soon(self, work: Callable[[], object]) -> None:
        """Calls a function on the loop; functions run in the order in which they were submitted. Raises ClientClosed,
        ClientForked."""
        self.check_process()
        with self._accepting:
            self.check_open()
            self._loop.call_soon_threadsafe(work)

    def keep(self, source: PageSource[Any]) -> None:
        """Keeps a source alive until `end_soon`, because the garbage collector might close its nested generators in the
        wrong order."""
        self._sources.add(source)

    def end_soon(self, source: PageSource[Any]) -> None:
        """Ends a kept source if the loop is still running. Intended for finalisers: never waits and never raises."""
        if self._is_closed or not self._home.is_here or sys.is_finalizing():
            return
        try:  # not under the lock, whose holder may be a thread stopped by the exiting interpreter
            self._loop.call_soon_threadsafe(self._end_source, source)
        except RuntimeError:  # the loop has just been closed, which ended all sources
            return

    def close(self, last_work: LastWork) -> None:
        """Fails waiting calls with ClientClosed, does the last work, and ends the thread. Safe to repeat."""
        if not self._home.is_here or sys.is_finalizing():
            return  # fork() did not copy the thread, or the exiting interpreter has stopped it: nothing to end
        self.check_may_wait()
        if self._forgotten is not None:
            self._forgotten.detach()
        with self._accepting:
            is_first = not self._is_closed
            self._is_closed = True
            waited_for = list(self._waited_for)
        if not is_first:
            self._thread.join()
            return
        for call in waited_for:
            self._loop.call_soon_threadsafe(call.cancel)
        last = _Call(partial(self._close, last_work))
        try:
            self._loop.call_soon_threadsafe(last.begin)
            last.result()
        finally:
            self._end()

    def _end_source(self, source: PageSource[Any]) -> None:
        self._sources.discard(source)
        task = self._loop.create_task(source.end())
        self._ending.add(task)  # the loop keeps only a weak reference to it
        task.add_done_callback(self._ending.discard)

    async def _close(self, last_work: LastWork) -> None:
        # Errors while ending a read no longer matter.
        ending = [*(source.end() for source in list(self._sources)), *self._ending]
        await asyncio.gather(*ending, return_exceptions=True)
        await last_work()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


_unclosed: weakref.WeakSet[LoopThread] = weakref.WeakSet()


def _close_at_exit() -> None:
    """Closes the clients that the program has not closed; a forked child does not touch its parent's clients."""
    for thread in list(_unclosed):
        thread.close(thread._last_work)


# By the time `atexit` runs, thread pools accept no more work, but the metadata store may still need one.
getattr(threading, "_register_atexit", atexit.register)(_close_at_exit)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop, then cancels the tasks left on it; the main function of the thread. The thread that calls `close`
    may be running another event loop, so the tasks are cancelled here."""
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(_all_ended(left))
    give_back_loop(loop)


_forgotten_ones: set[asyncio.Task[None]] = set()
"""Running clean-ups, kept here because the loop holds only weak references to tasks."""


def _end_forgotten(loop: asyncio.AbstractEventLoop, home: ForkGuard, last_work: LastWork, owner: str) -> None:
    """Ends a LoopThread that is no longer referenced. This is its finaliser, which may run on any thread."""
    if not home.is_here or sys.is_finalizing():
        return
    try:
        loop.call_soon_threadsafe(_end_later, loop, last_work)
    except RuntimeError:  # the loop was closed at this very moment
        return
    warnings.warn(f"a {owner} was never closed", ResourceWarning, stacklevel=2)  # last, because it may raise


def _end_later(loop: asyncio.AbstractEventLoop, last_work: LastWork) -> None:
    task = loop.create_task(_end_after(loop, last_work))
    _forgotten_ones.add(task)
    task.add_done_callback(_forgotten_ones.discard)


async def _end_after(loop: asyncio.AbstractEventLoop, last_work: LastWork) -> None:
    try:
        await last_work()
    finally:
        loop.stop()


async def _all_ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _close_unstarted(work: Coroutine[Any, Any, Any]) -> None:
    """Closes a coroutine that the loop has not received; otherwise Python would warn that it was never awaited."""
    if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        with suppress(ValueError):  # the loop has just started it
            work.close()


class PageSource(Generic[T]):
    """An async generator that is read one page at a time and closed on the loop's thread."""

    def __init__(self, pages: AsyncGenerator[T, None]) -> None:
        self._pages = pages
        self._turn = asyncio.Lock()  # an interrupted `next` may still be ending when `end` is called

    async def next(self) -> T | None:
        """Returns the next page, or None after the last."""
        async with self._turn:
            return await anext(self._pages, None)

    async def end(self) -> None:
        async with self._turn:
            await self._pages.aclose()


def iterate(thread: LoopThread, pages: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Turns an async generator of pages into a plain one, which switches threads once per page.

    The generator may be closed or dropped early, on any thread: closing it never waits.
    """
    source = PageSource(pages)
    thread.keep(source)
    try:
        while (page := thread.run(source.next)) is not None:
            yield page
    finally:
        thread.end_soon(source)


async def in_pages(items: AsyncIterator[T], page_items: int) -> AsyncGenerator[list[T], None]:
    """Groups items into pages of `page_items`. On a LedgerError, yields the items before it, then raises it."""
    page: list[T] = []
    try:
        async for item in items:
            page.append(item)
            if len(page) == page_items:
                yield page
                page = []
    except LedgerError:
        if page:
            yield page
        raise
    if page:
        yield page
