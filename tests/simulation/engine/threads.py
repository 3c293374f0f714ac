"""An event loop under virtual time whose threads are turns of its own.

What a thread would do is done at a drawn moment, on the loop's own thread, between two turns of the loop. Where it
touches the disk it may be overtaken: the loop turns a few times, with whatever else is due, before it goes on. So
everything is interleaved as with threads, and a seed gives the same run. (A thread that was overtaken goes on when
those that overtook it are done, or wait themselves for something.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from .chance import Stream
from .loop import VirtualLoop

T = TypeVar("T")
Work = Callable[[], None]

THREAD_SECONDS = 0.001
"""How long it takes, on average, until a thread does what it is asked."""

TURNS_MAX, LONG_TURNS_MAX = 12, 400
LONG = 0.2
"""How often it takes long until it goes on."""

DEPTH_MAX = 3
"""So many threads may have been overtaken and wait."""


class Died(BaseException):
    """The process is gone, in the middle of whatever it was doing. No `except Exception` may catch this."""


class ThreadedLoop(VirtualLoop):
    """See the module. Belongs to one life of a process; `die` is the end of it.

    `overtaken`: how often a thread is overtaken where it touches the disk.
    """

    def __init__(self, chance: Stream, overtaken: float, on_death: Callable[[], None]) -> None:
        super().__init__()
        self._chance = chance
        self._overtaken = overtaken
        self._on_death = on_death
        self._due: list[tuple[Work, bool]] = []
        self._asked: dict[asyncio.Future[Any], None] = {}
        self._depth = 0
        self._is_still = False
        self.is_dead = False

    def run_until_complete(self, future: Any) -> Any:
        """Raises Died where the process is gone in the middle of a thread's work."""
        try:
            return super().run_until_complete(future)
        except Died:
            self.call_soon(self.stop)
            self.run_forever()  # if the end had come too, it was about to stop the loop
            raise

    # --- threads --------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """At some moment soon. What a dead process asks for fails at once."""
        done: asyncio.Future[T] = self.create_future()
        if self.is_dead:
            done.set_exception(OSError("the process is gone"))
            return done
        self._asked[done] = None

        def work() -> None:
            if not done.cancelled():
                settle(done, func, *args)
            self._asked.pop(done, None)  # not where the process has died of it

        self.in_a_thread(work, alone=getattr(func, "is_alone", False))
        return done

    def in_a_thread(self, work: Work, *, alone: bool = False, after: float = 0.0) -> None:
        """`alone`: never while another thread has been overtaken and waits."""
        self.call_later(after + self._chance.exponential(THREAD_SECONDS), self._is_due, work, alone)

    def _is_due(self, work: Work, alone: bool) -> None:
        if not self.is_dead:
            self._due.append((work, alone))

    def overtake(self) -> None:
        """A thread is about to touch the disk."""
        if self._is_still or not 0 < self._depth <= DEPTH_MAX or not self._chance.happens(self._overtaken):
            return
        turns_max = LONG_TURNS_MAX if self._chance.happens(LONG) else TURNS_MAX
        for _ in range(1 + self._chance.below(turns_max)):
            if not (self._ready or self._scheduled or self._due):  # type: ignore[attr-defined]
                return
            self._run_once()  # type: ignore[attr-defined]
            if self.is_dead:
                raise Died

    def still(self) -> Still:
        """Inside the block the disk is looked at, and nothing happens."""
        return Still(self)

    def select(self, timeout_seconds: float | None) -> list[Any]:
        work = self._next_work()
        if work is not None:
            self._run(work)
            timeout_seconds = 0.0
        if timeout_seconds is None and self._depth:
            return []
        return super().select(timeout_seconds)

    def _next_work(self) -> Work | None:
        for n, (work, alone) in enumerate(self._due):
            if not (alone and self._depth):
                del self._due[n]
                return work
        return None

    def _run(self, work: Work) -> None:
        self._depth += 1
        try:
            work()
        except Died:
            if not self.is_dead:
                self._on_death()
                self.die()
            raise
        finally:
            self._depth -= 1

    def die(self) -> None:
        """Nothing that was asked of a thread is done any more; what waits for it is told, so that it can end."""
        self.is_dead = True
        self._due.clear()
        asked, self._asked = self._asked, {}
        for done in asked:
            if not done.done():
                done.set_exception(OSError("the process is gone"))


class Still:
    """A look at the disk from outside the simulated process."""

    def __init__(self, loop: ThreadedLoop) -> None:
        self._loop = loop
        self._before = False

    def __enter__(self) -> None:
        self._before, self._loop._is_still = self._loop._is_still, True

    def __exit__(self, *_: object) -> None:
        self._loop._is_still = self._before


def settle(done: asyncio.Future[T], func: Callable[..., T], *args: Any) -> None:
    """Does it, and tells what comes of it. Died goes through."""
    try:
        result = func(*args)
    except Exception as error:
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)
