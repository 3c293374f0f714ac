"""Processes of many hosts on one virtual event loop: each has threads of its own, may stand still, and dies alone.

What a process does is told by the context it runs in: its tasks, timers and threads inherit that from each other. One
that stands still (SIGSTOP) keeps all of it until it goes on. One that is dead is unwound: its tasks are cancelled, its
seams do nothing any more, and what it asks of a thread is cancelled at once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from .chance import Stream
from .loop import OWNER, VirtualLoop
from .threads import DEPTH_MAX, LONG, LONG_TURNS_MAX, THREAD_SECONDS, TURNS_MAX, Died, ThreadedLoop, settle

T = TypeVar("T")
Work = Callable[[], None]

OVERTAKEN_SECONDS_MAX = 0.5
"""A thread that was overtaken goes on after this, if all others are idle."""

HOSTS_ITERATIONS_MAX = 200_000
"""Whole clusters look for something to heal all the time; a run that needs more turns is a livelock."""

HUNG_SECONDS_MAX = 15.0
"""So long a thread hangs at most."""

PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
"""Whose code runs; None for the world outside."""


class Process:
    """One life. `on_power_off` is called when its disk finds the power gone, in the middle of whatever it does.

    `thread_seconds` is how long it takes, on average, until one of its threads does what it is asked.
    """

    def __init__(self, loop: HostLoop, name: str, on_power_off: Work) -> None:
        self.name = name
        self.is_dead = False
        self.stands_still = False
        self.thread_seconds = THREAD_SECONDS
        self.signals: dict[int, tuple[Context, Callable[[], object]]] = {}
        self.asked: dict[asyncio.Future[Any], None] = {}
        self.set_aside: list[asyncio.Handle] = []
        self.at_death: list[Work] = []
        self.on_power_off = on_power_off
        self._loop = loop
        self._context = copy_context()
        self._context.run(PROCESS.set, self)
        self._context.run(OWNER.set, name)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        return self._loop.create_task(work, context=self._context)

    def context(self) -> Context:
        """In which its callbacks run."""
        return self._context.copy()

    def run(self, work: Callable[[], T]) -> T:
        """Does it here and now, as this process."""
        return self._context.copy().run(work)

    def signal(self, number: int) -> None:
        """Delivers a signal that it handles."""
        context, handler = self.signals[number]
        self._loop.call_soon(handler, context=context)

    def stand_still(self) -> None:
        self.stands_still = True
        self._loop.stands_still(self)

    def go_on(self) -> None:
        self.stands_still = False
        self._loop.goes_on(self)

    def die(self) -> None:
        """Nothing of it happens any more but its unwinding."""
        self.is_dead = True
        self.go_on()
        self._loop.is_gone(self)
        for work in self.at_death:
            work()
        for done in list(self.asked):
            done.cancel()
        for task in self.tasks():
            task.cancel()

    @property
    def loop_name(self) -> str:
        """Whose tasks those of a blocking client are."""
        return f"{self.name} loop"

    def tasks(self) -> list[asyncio.Task[Any]]:
        """All that are not done."""
        return self._loop.running_tasks(self.name) + self._loop.running_tasks(self.loop_name)


class _Turn:
    """What a thread of a process is to do."""

    def __init__(self, process: Process, work: Work, *, alone: bool) -> None:
        self.process = process
        self.alone = alone
        self._work = work
        self._context = copy_context()

    def take(self) -> None:
        self._context.run(self._work)


class HostLoop(ThreadedLoop):
    """See the module. `overtaken`: how often a thread is overtaken where it touches the disk."""

    iterations_max = HOSTS_ITERATIONS_MAX

    def __init__(self, chance: Stream, overtaken: float) -> None:
        super().__init__(chance, overtaken, _nothing)
        self._turns: list[_Turn] = []
        self._taken: list[_Turn] = []
        self._still_ones: set[Process] = set()
        self._is_in_turn = False
        self._dead: set[str] = set()

    # --- threads --------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """At some moment soon; for the world outside at once. What a dead process asks for is cancelled."""
        process = PROCESS.get()
        if process is None:
            return VirtualLoop.run_in_executor(self, executor, func, *args)
        done: asyncio.Future[T] = self.create_future()
        if process.is_dead:
            done.cancel()
            return done
        process.asked[done] = None

        def work() -> None:
            if not done.cancelled():
                settle(done, func, *args)
            process.asked.pop(done, None)  # not where the process has died of it

        self.in_a_thread(work, alone=getattr(func, "is_alone", False))
        return done

    def in_a_thread(self, work: Work, *, alone: bool = False, after: float = 0.0) -> None:
        process = PROCESS.get()
        assert process is not None
        turn = _Turn(process, work, alone=alone)
        seconds = min(self._chance.exponential(process.thread_seconds), HUNG_SECONDS_MAX)
        self.call_later(after + seconds, self._turns.append, turn)

    def overtake(self) -> None:
        if not self._is_in_turn or self._is_still or len(self._taken) > DEPTH_MAX:
            return
        process = self._taken[-1].process
        if not self._chance.happens(self._overtaken):
            return
        turns_max = LONG_TURNS_MAX if self._chance.happens(LONG) else TURNS_MAX
        until = self.time() + OVERTAKEN_SECONDS_MAX
        for _ in range(1 + self._chance.below(turns_max)):
            if self.time() > until:
                return
            self._is_in_turn = False
            self._run_once()
            self._is_in_turn = True
            if process.is_dead:
                raise Died

    def calm(self) -> None:
        """No thread is overtaken from here on."""
        self._overtaken = 0.0

    def select(self, timeout_seconds: float | None) -> list[Any]:
        turn = self._next_turn()
        if turn is not None:
            self._take(turn)
            timeout_seconds = 0.0
        if self._taken and (timeout_seconds is None or timeout_seconds > OVERTAKEN_SECONDS_MAX):
            return []  # nothing happens but what waits for the thread that was overtaken
        events = VirtualLoop.select(self, timeout_seconds)
        if self._still_ones:
            self._set_timers_aside()
        return events

    def _next_turn(self) -> _Turn | None:
        for n, turn in enumerate(self._turns):
            if not (turn.process.stands_still or (turn.alone and self._taken)):
                del self._turns[n]
                return turn
        return None

    def _take(self, turn: _Turn) -> None:
        if turn.process.is_dead:
            return
        self._taken.append(turn)
        self._is_in_turn = True
        try:
            turn.take()
        except Died:
            if not turn.process.is_dead:
                turn.process.on_power_off()
        finally:
            self._is_in_turn = False
            self._taken.pop()

    # --- dying ----------------------------------------------------------------------------------

    def is_gone(self, process: Process) -> None:
        """What comes of its unwinding concerns nobody."""
        self._dead.update((process.name, process.loop_name))

    def _note_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        if getattr(task, "owner", None) not in self._dead:
            super()._note_problem(loop, context)

    # --- standing still -------------------------------------------------------------------------

    def stands_still(self, process: Process) -> None:
        self._still_ones.add(process)

    def goes_on(self, process: Process) -> None:
        self._still_ones.discard(process)
        handles, process.set_aside = process.set_aside, []
        self._ready.extend(handle for handle in handles if not handle.cancelled())  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        if self._still_ones:
            self._set_ready_aside()
        super()._run_once()  # type: ignore[misc]

    def _set_ready_aside(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]
        for _ in range(len(ready)):
            handle = ready.popleft()
            process = handle._context.get(PROCESS)
            (ready if process not in self._still_ones else process.set_aside).append(handle)

    def _set_timers_aside(self) -> None:
        """Timers that are due now, in the order they are."""
        scheduled, kept, end = self._scheduled, [], self.time() + self._clock_resolution  # type: ignore[attr-defined]
        while scheduled and scheduled[0].when() < end:
            timer = heapq.heappop(scheduled)
            process = timer._context.get(PROCESS)
            if process in self._still_ones:
                timer._scheduled = False
                process.set_aside.append(timer)
            else:
                kept.append(timer)
        for timer in kept:
            heapq.heappush(scheduled, timer)

    # --- signals --------------------------------------------------------------------------------

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        process = PROCESS.get()
        assert process is not None
        process.signals[sig] = copy_context(), lambda: callback(*args)


def _nothing() -> None:
    """Each process says itself what its death means."""
