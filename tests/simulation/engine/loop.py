"""An event loop whose clock jumps: when nothing is ready it is at once the time of the next timer.

No sleeping, no threads, no sockets. What is ready runs in the order in which it became ready, as in any
loop; chance comes from the delays that a seed decides. Sets of tasks and futures iterate in the order they
were made, not by address, so that a seed gives the same run everywhere.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

ITERATIONS_MAX = 40_000
"""A run that needs more turns of the loop is a livelock."""

LAST_SECONDS = 100.0
"""What a failed run has left is given so long to end."""

ENDED_TIMES_MAX = 8
"""How often what is left is cancelled: what ends may begin something that has to end, too."""

TIMER_SLACK_SECONDS = 1e-9
"""Timers closer together than a float can tell are due together."""


class LoopStuck(AssertionError):
    """The run cannot come to its end."""


class Deadlock(LoopStuck):
    """Nothing is ready, no timer is set, and the main task is not done."""


class Livelock(LoopStuck):
    """The loop turns and turns: see ITERATIONS_MAX."""


OWNER: ContextVar[str] = ContextVar("OWNER", default="")
"""Whose tasks and timers are made in this context."""


class OrderedTask(asyncio.Task[Any]):
    """A task whose place in a set follows from when it was made, and that knows whose it is."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: VirtualLoop, **options: Any) -> None:
        self._serial = loop.next_serial()
        context: Context | None = options.get("context")
        self.owner = OWNER.get() if context is None else context.get(OWNER, "")
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._serial


class OrderedFuture(asyncio.Future[Any]):
    """The same for a future."""

    def __init__(self, *, loop: VirtualLoop) -> None:
        self._serial = loop.next_serial()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._serial


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. `problems` holds what was reported to the loop and reached nobody else."""

    iterations_max = ITERATIONS_MAX

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.iterations = 0
        self.next_serial = itertools.count(1).__next__
        self._now = 0.0
        self._selector = self  # asyncio asks it to wait: `select`
        self._clock_resolution = TIMER_SLACK_SECONDS
        self.set_task_factory(lambda _, coro, **options: OrderedTask(coro, loop=self, **options))
        self.set_exception_handler(self._note_problem)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        return OrderedFuture(loop=self)

    def select(self, timeout_seconds: float | None) -> list[Any]:
        """Instead of waiting: it is later. Raises Deadlock or Livelock."""
        self.iterations += 1
        if self.iterations > self.iterations_max:
            raise Livelock(f"still busy after {self.iterations_max} turns of the loop")
        if timeout_seconds is None:
            raise Deadlock("nothing is ready and no timer is set, and the main task is not done")
        self._now += timeout_seconds
        return []

    def run_in_executor(  # type: ignore[override]  # the stubs' way to say it needs a newer Python
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs it here and now: there are no threads in virtual time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def pending_timers(self) -> list[asyncio.TimerHandle]:
        """What is set and not cancelled, in the order it is due."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return sorted((timer for timer in scheduled if not timer.cancelled()), key=lambda timer: timer.when())

    def running_tasks(self, owner: str) -> list[asyncio.Task[Any]]:
        """This owner's tasks that are not done, in the order they were made."""
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return [task for task in tasks if isinstance(task, OrderedTask) and task.owner == owner]

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There is no other thread to be woken from."""

    def _note_problem(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        about = context.get("exception") or context.get("task") or context.get("future")
        self.problems.append(f"{context['message']}: {about!r}")


def owned_by(owner: str) -> Context:
    """A context in which what is made belongs to this owner."""
    context = copy_context()
    context.run(OWNER.set, owner)
    return context


def run(main: Callable[[], Coroutine[Any, Any, T]], loop: VirtualLoop) -> T:
    """Runs `main()` on the loop to its end, and lets go of the loop whatever became of it."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main())
    finally:
        _end_all(loop)
        asyncio.set_event_loop(None)
        loop.close()


def _end_all(loop: VirtualLoop) -> None:
    """Ends what a failed run has left, for its own part in silence: the failure is known already."""
    problems = list(loop.problems)
    for _ in range(ENDED_TIMES_MAX):
        left = asyncio.all_tasks(loop)
        if not left:
            break
        loop.iterations = 0
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=LAST_SECONDS))
    loop.problems[:] = problems
