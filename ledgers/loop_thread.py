"""The thread behind the blocking client: an event loop on which its asyncio twin lives.

Whoever calls from another thread waits for the loop. Nobody may wait on the loop's own thread, where
the callbacks of futures run, and no finaliser may wait at all: it runs on any thread, even when
the loop's thread is gone because the interpreter ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading
import warnings
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Generic, TypeVar

from metadata.home_process import HomeProcess

from .errors import ClientClosed, ClientForked, LedgerError, WouldDeadlock

T = TypeVar("T")

LastWork = Callable[[], Coroutine[Any, Any, None]]
"""What is done on the loop before its thread ends."""


_unused_loops: list[asyncio.AbstractEventLoop] = []
"""Loops of clients that were closed, for the next ones: as many as there were clients open at once.

gRPC tells of a call that was given up even after its client is closed. A loop that is closed then is complained of, in
the middle of another client's work; and gRPC keeps every loop it has met for as long as any client is open.
"""


def take_loop() -> asyncio.AbstractEventLoop:
    """One that nobody runs."""
    try:
        return _unused_loops.pop()
    except IndexError:
        return asyncio.new_event_loop()


def give_back_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Nothing of the caller's may run on it any more."""
    _unused_loops.append(loop)


def _leave_to_parent() -> None:
    """In a forked child. A loop that is freed leaves its epoll, which here is the parent's too: none is ever freed."""
    while _unused_loops:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_unused_loops.pop()))


os.register_at_fork(after_in_child=_leave_to_parent)


class LoopThread:
    """A private event loop in a thread. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._loop = take_loop()
        self._home = HomeProcess(ClientForked)
        self._is_closed = False
        self._waited_for: set[Future[Any]] = set()
        self._sources: set[PageSource[Any]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        # Held for a few steps only, never while waiting. Whatever is accepted under it runs before `close`.
        self._accepting = threading.RLock()
        self._forgotten: weakref.finalize[..., LoopThread] | None = None
        # The thread knows the loop alone, so that whoever is used no more is collected.
        self._thread = threading.Thread(
            target=partial(_serve, self._loop), name="bookledger-client", daemon=True
        )
        self._thread.start()

    def end_when_forgotten(self, last_work: LastWork, owner: str) -> None:
        """When nobody refers to this any more, neither the client nor a handle of it, the thread ends after the last
        work, with a ResourceWarning. Never waits."""
        self._forgotten = weakref.finalize(self, _end_forgotten, self._loop, self._home, last_work, owner)
        self._forgotten.atexit = False  # the interpreter that ends has stopped the thread

    @property
    def is_here(self) -> bool:
        """Whether this is the process that made it."""
        return self._home.is_here

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop's thread, and so must not wait."""
        return threading.get_ident() == self._thread.ident

    def check_open(self) -> None:
        """Raises ClientClosed, ClientForked."""
        self._home.check()
        if self._is_closed or sys.is_finalizing():
            raise ClientClosed

    def check_process(self) -> None:
        """Raises ClientForked in a process that was forked from the client's: its locks may be taken for ever there."""
        self._home.check()

    def check_may_wait(self) -> None:
        """Raises WouldDeadlock on the loop's own thread, ClientForked."""
        self.check_process()
        if self.is_current:
            raise WouldDeadlock

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine there and waits; an interrupt of the caller cancels it.

        Raises what the coroutine raises, ClientClosed, ClientForked, WouldDeadlock.
        """
        try:
            self.check_may_wait()
            self.check_open()  # without the lock, whose holder may be gone where the interpreter ends
        except LedgerError:
            work.close()
            raise
        with self._accepting:  # so that `close` knows of every call it has accepted
            future = self.submit(work)
            self._waited_for.add(future)
        try:
            return self._result_of(future)
        finally:
            self._waited_for.discard(future)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine there; returns the future of its result at once. Raises ClientClosed, ClientForked."""
        try:
            self.check_process()
            with self._accepting:
                self.check_open()
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except LedgerError:
            work.close()
            raise

    def call_soon(self, work: Callable[[], object]) -> None:
        """Has it called there, in the order of these calls. Raises ClientClosed, ClientForked."""
        self.check_process()
        with self._accepting:
            self.check_open()
            self._loop.call_soon_threadsafe(work)

    def keep(self, source: PageSource[Any]) -> None:
        """Keeps a source alive until `end_soon`: the collector would end its nested generators in any order."""
        self._sources.add(source)

    def end_soon(self, source: PageSource[Any]) -> None:
        """For finalisers: ends a source that was kept, if the loop still runs. Never waits, never raises."""
        if self._is_closed or not self._home.is_here or sys.is_finalizing():
            return
        try:  # without the lock: its holder may be a thread that the ending interpreter has stopped
            self._loop.call_soon_threadsafe(self._end_source, source)
        except RuntimeError:  # closed at this moment, and all sources ended with it
            return

    def close(self, last_work: LastWork) -> None:
        """Ends calls that wait with ClientClosed, does the last work, ends the thread. Twice is fine."""
        if not self._home.is_here or sys.is_finalizing():
            return  # fork() did not copy the thread, or the ending interpreter has stopped it: there is nothing to end
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
        for future in waited_for:
            future.cancel()
        try:
            asyncio.run_coroutine_threadsafe(self._close(last_work), self._loop).result()
        finally:
            self._end()

    def _end_source(self, source: PageSource[Any]) -> None:
        self._sources.discard(source)
        task = self._loop.create_task(source.end())
        self._ending.add(task)  # the loop alone would not keep it alive
        task.add_done_callback(self._ending.discard)

    async def _close(self, last_work: LastWork) -> None:
        # What the end of a read raises concerns nobody any more.
        await asyncio.gather(*(source.end() for source in list(self._sources)), return_exceptions=True)
        await last_work()

    def _result_of(self, future: Future[T]) -> T:
        try:
            return future.result()
        except CancelledError:
            if self._is_closed:
                raise ClientClosed from None
            raise
        except BaseException:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The thread. What the loop needs at its end is done here too: whoever closes may run a loop of his own."""
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(_all_ended(left))
    give_back_loop(loop)


_forgotten_ones: set[asyncio.Task[None]] = set()
"""Ends under way: the loop alone would not keep them alive."""


def _end_forgotten(
    loop: asyncio.AbstractEventLoop, home: HomeProcess, last_work: LastWork, owner: str
) -> None:
    """In the finaliser, on any thread."""
    if not home.is_here or sys.is_finalizing():
        return
    try:
        loop.call_soon_threadsafe(_end_later, loop, last_work)
    except RuntimeError:  # closed at this moment
        return
    warnings.warn(f"a {owner} was never closed", ResourceWarning, stacklevel=2)  # last: it may be an error


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


class PageSource(Generic[T]):
    """An asynchronous generator that is taken from one page at a time, and ended on the loop's thread."""

    def __init__(self, pages: AsyncGenerator[T, None]) -> None:
        self._pages = pages
        self._turn = asyncio.Lock()  # an interrupted `next` may still be ending when the end is asked for

    async def next(self) -> T | None:
        """The next page, or None behind the last."""
        async with self._turn:
            return await anext(self._pages, None)

    async def end(self) -> None:
        async with self._turn:
            await self._pages.aclose()


def iterate(thread: LoopThread, pages: AsyncGenerator[T, None]) -> Iterator[T]:
    """An asynchronous generator of pages as an ordinary one: one page to a hop between the threads.

    May be dropped half-way by anybody at any time: it never waits for its own end.
    """
    source = PageSource(pages)
    thread.keep(source)
    try:
        while (page := thread.run(source.next())) is not None:
            yield page
    finally:
        thread.end_soon(source)


async def in_pages(items: AsyncIterator[T], page_items: int) -> AsyncGenerator[list[T], None]:
    """Items by so many; those before an error are given before it is raised."""
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
