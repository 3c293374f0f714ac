"""Ordinary code that blocks, on threads of its own beside a virtual event loop: one of them all runs at any moment.

A thread runs until it waits for something (a future, a condition, another thread, time), or is overtaken; then the loop
goes on. What it waited for wakes it at a drawn moment soon. So everything is interleaved as with threads, and a seed
gives the same run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

from .chance import Stream
from .loop import OWNER
from .processes import PROCESS, HostLoop, Process
from .threads import Died

SWITCH_SECONDS = 0.0005
"""How long it takes, on average, until a thread that could go on does."""

OVERTAKEN = 0.2
"""How often a thread is overtaken where it takes or leaves a lock."""


class AppThread:
    """A thread of a process, as `threading.Thread`. `ident` is its name for `get_ident`."""

    def __init__(
        self, target: Callable[[], None], name: str = "", *, daemon: bool = True, world: AppThreads
    ) -> None:
        self.ident: int | None = None
        self.failure: BaseException | None = None
        self.is_done = False
        self.interrupt: type[BaseException] | None = None
        self._world = world
        self._may_run = threading.Semaphore(0)
        self._has_paused = threading.Semaphore(0)
        self._context = copy_context()
        self.process = PROCESS.get()
        self._waits_for_me: list[Callable[[], object]] = []
        self._is_due = False
        self.locks = 0
        self._thread = threading.Thread(
            target=lambda: self._context.run(self._run, target), name=name, daemon=daemon
        )

    def start(self) -> None:
        self._thread.start()
        self.ident = self._thread.ident
        self._world.by_ident[self._thread.ident] = self
        self.wake()

    def is_alive(self) -> bool:
        return not self.is_done

    def join(self) -> None:
        """As of a thread; of the world's own at the end of a run it must be done."""
        me = self._world.current
        if not self.is_done and me is not None:
            self._waits_for_me.append(me.wake)
            me.wait_until(lambda: self.is_done)

    def on_end(self, then: Callable[[], object]) -> None:
        """Called when it is done, however that came."""
        self._waits_for_me.append(then)

    # --- on the loop ----------------------------------------------------------------------------

    def wake(self) -> None:
        """It goes on soon."""
        if not (self._is_due or self.is_done):
            self._is_due = True
            delay = self._world.chance.exponential(SWITCH_SECONDS)
            self._world.loop.call_later(delay, self._go_on, context=self._context.copy())

    def _go_on(self) -> None:
        self._is_due = False
        if not self.is_done:
            before, self._world.current = self._world.current, self
            self._may_run.release()
            self._has_paused.acquire()
            self._world.current = before

    def interrupted(self) -> None:
        """Ctrl-C, where it waits."""
        if not self.is_done and self.interrupt is None:
            self.interrupt = KeyboardInterrupt
            self.wake()

    def kill(self) -> None:
        """It is gone: wherever it waits, it unwinds."""
        self.interrupt = Died
        while not self.is_done:
            self._go_on()

    # --- in the thread --------------------------------------------------------------------------

    def _run(self, target: Callable[[], None]) -> None:
        self._may_run.acquire()
        try:
            if self.interrupt is None:
                target()
        except Died:
            pass  # it was killed
        except BaseException as error:
            self.failure = error
        self.is_done = True
        try:
            for wake in self._waits_for_me:
                wake()
        finally:
            self._has_paused.release()

    def _pause(self) -> None:
        """Others run until somebody wakes it."""
        self._has_paused.release()
        self._may_run.acquire()

    def wait(self) -> None:
        """The same. Raises what interrupts it."""
        if self.interrupt is None:
            self._pause()
        interrupt = self.interrupt
        if interrupt is not None:
            if interrupt is not Died:
                self.interrupt = None
            raise interrupt

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Whoever changes that wakes it."""
        while not is_so():
            self.wait()

    def may_be_overtaken(self) -> None:
        """Others run for a moment, at times."""
        if not self.locks and self.interrupt is None and self._world.chance.happens(OVERTAKEN):
            self.wake()
            self._pause()


class AppThreads:
    """All such threads of one run; `current` is the one that runs, None while the loop does."""

    def __init__(self, loop: HostLoop, chance: Stream) -> None:
        self.loop = loop
        self.chance = chance
        self.current: AppThread | None = None
        self.by_ident: dict[int | None, AppThread] = {}

    def start(self, process: Process, target: Callable[[], None]) -> AppThread:
        """A thread of this process."""
        thread = process.run(lambda: AppThread(target, world=self))
        process.run(thread.start)
        return thread

    def sleep(self, seconds: float) -> None:
        """For an application."""
        thread = self.current
        assert thread is not None
        until = self.loop.time() + seconds
        self.loop.call_later(seconds, thread.wake)
        thread.wait_until(lambda: self.loop.time() >= until)

    def kill(self, process: Process) -> None:
        """All that this process has."""
        for thread in self.by_ident.values():
            if thread.process is process:
                thread.kill()

    def end_all(self) -> None:
        """At the end of a run, however it came."""
        for thread in self.by_ident.values():
            thread.kill()

    @contextmanager
    def instead_of_real_ones(self, loop_thread: Any, *locking: Any) -> Iterator[None]:
        """In these modules of the product: the one with the thread, and those that only take locks."""
        threads = SimpleNamespace(
            Thread=lambda **given: AppThread(world=self, **given),
            Lock=lambda: _PlainLock(self),
            RLock=lambda: _Lock(self),
            Condition=lambda lock=None: _Condition(self),  # its lock is never contended either
            get_ident=self._ident,
        )
        tasks = SimpleNamespace(**{**vars(asyncio), "all_tasks": lambda loop: loop.tasks()})
        result = concurrent.futures.Future.result

        def waits(future: concurrent.futures.Future[Any], timeout: float | None = None) -> Any:
            thread = self.current
            if thread is not None and not future.done():
                future.add_done_callback(lambda _: thread.wake())
                thread.wait_until(future.done)
            return result(future, timeout)

        with (
            ExitStack() as patches,
            patch.object(loop_thread, "threading", threads),
            patch.object(loop_thread, "asyncio", tasks),
            patch.object(loop_thread, "take_loop", lambda: _ThreadsLoop(self)),
            patch.object(loop_thread, "give_back_loop", lambda loop: None),
            patch.object(concurrent.futures.Future, "result", waits),
        ):
            for module in locking:
                patches.enter_context(patch.object(module, "threading", threads))
            yield

    def _ident(self) -> int:
        """Of the thread that runs; what runs on the loop runs on the thread of the client whose process it is."""
        thread = self.current
        if thread is not None:
            assert thread.ident is not None
            return thread.ident
        return _ThreadsLoop.ident_here()


class _ThreadsLoop:
    """The loop of one thread: a part of the virtual loop that can be stopped."""

    _idents: ClassVar[dict[Process, int]] = {}

    def __init__(self, world: AppThreads) -> None:
        self._world = world
        self._thread: AppThread | None = None
        self._is_stopped = False
        self._process = PROCESS.get()
        assert self._process is not None
        self._context = copy_context()
        self._context.run(OWNER.set, self._process.loop_name)

    @staticmethod
    def ident_here() -> int:
        process = PROCESS.get()
        return 0 if process is None else _ThreadsLoop._idents.get(process, 0)

    def run_forever(self) -> None:
        self._thread = self._world.current
        assert self._thread is not None and self._thread.ident is not None and self._process is not None
        self._idents[self._process] = self._thread.ident
        self._thread.wait_until(lambda: self._is_stopped)

    def run_until_complete(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._thread is not None
        task = self._world.loop.create_task(work, context=self._context)
        task.add_done_callback(lambda _: self._thread.wake() if self._thread else None)
        self._thread.wait_until(task.done)
        return task.result()

    def stop(self) -> None:
        self._is_stopped = True
        if self._thread is not None:
            self._thread.wake()

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        self._world.loop.call_soon(callback, *args, context=self._context.copy())

    def create_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._world.loop.create_task(work)

    def tasks(self) -> set[asyncio.Task[Any]]:
        """All that run on it."""
        assert self._process is not None
        return set(self._world.loop.running_tasks(self._process.loop_name))


class _Lock:
    """Never contended: nobody is overtaken who holds one."""

    def __init__(self, world: AppThreads) -> None:
        self._world = world

    def __enter__(self) -> None:
        thread = self._world.current
        if thread is not None:
            thread.may_be_overtaken()
            thread.locks += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        thread = self._world.current
        if thread is not None:
            thread.locks -= 1
            if kind is None:
                thread.may_be_overtaken()


class _PlainLock:
    """As `threading.Lock`, which whoever has not taken it may release; it is taken by threads of this world only."""

    def __init__(self, world: AppThreads) -> None:
        self._world = world
        self._is_taken = False
        self._waiting: AppThread | None = None

    def acquire(self, timeout: float = -1) -> bool:
        """Interrupted at once, so however long it may wait it is not asked for again."""
        if self._is_taken:
            self._waiting = self._world.current
            assert self._waiting is not None, "only a thread may wait"
            self._waiting.wait_until(lambda: not self._is_taken)
        self._is_taken = True
        return True

    def release(self) -> None:
        self._is_taken = False
        if self._waiting is not None:
            self._waiting.wake()


class _Condition(_Lock):
    """As `threading.Condition`, for threads of this world; whoever notifies may be the loop."""

    def __init__(self, world: AppThreads) -> None:
        super().__init__(world)
        self._waiting: list[AppThread] = []

    def wait(self) -> None:
        thread = self._world.current
        assert thread is not None
        self._waiting.append(thread)
        try:
            thread.wait_until(lambda: thread not in self._waiting)
        finally:
            if thread in self._waiting:
                self._waiting.remove(thread)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Nobody of this world gives it a time limit."""
        assert timeout is None
        while not predicate():
            self.wait()
        return True

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            thread.wake()
