"""One plan, one run of upkeep."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

from bookie.errors import BookieError
from bookie.index import index
from bookie.log import appender, group_commit
from bookie.storage import bookie as bookie_module
from bookie.storage import ledger_states, stored_frames
from bookie.storage.bookie import Bookie
from bookie.storage.page_reader import PageReader
from bookie.upkeep.collecting import collector, compactor
from bookie.upkeep.collecting.compactor import Compactor
from bookie.upkeep.inventory import inventory
from bookie.upkeep.mending import gap_filling, limbo
from bookie.upkeep.scrubbing import segment_check
from bookie.upkeep.scrubbing.scrubber import Scrubber
from tests.simulation.engine.loop import LoopStuck
from tests.simulation.engine.loop import run as run_loop
from tests.simulation.engine.runs import Failed, Outcome
from tests.simulation.engine.threads import Died, ThreadedLoop
from tests.simulation.engine.world import Violation

from . import plan as steps
from .life import Ended, Life
from .log_turns import SteppedLogWriter
from .looks import look_at_log_alone, note_fences_without_record
from .plan import Plan, Sizes
from .probes import UpkeepProbe
from .rest import rebuild_index, salvage_log, until_done
from .rot import lose_segment
from .site import Site

LIVES_MAX = 200

DID_NOT_START = (BookieError, OSError)


def play(plan: Plan, tracing: bool = True) -> Outcome:
    """One whole run. Raises Failed."""
    site = Site(plan, tracing=tracing)
    with _small_sizes(plan.sizes), _watched(site), site.machine.powers_the_index():
        try:
            _live_on(site)
            look_at_log_alone(site)
        except Exception as why:  # a broken promise, or a fault of the product or of this harness
            raise Failed(plan, why, site.trace) from why
        finally:
            site.machine.close()
    end = f"{site.lives} lives, {site.machine.disk.operations} changes of the disk, no violation"
    return Outcome(plan, tuple(site.trace), frozenset(site.probes), end)


def _live_on(site: Site) -> None:
    """One life after the other, until one has come to the end of the plan and to rest."""
    while not site.is_done:
        site.lives += 1
        if site.lives > LIVES_MAX:
            raise Violation("liveness", f"still not done after {LIVES_MAX} lives")
        _live(site)
        if not site.is_done:
            _between_lives(site)
            look_at_log_alone(site)


def _live(site: Site) -> None:
    loop = ThreadedLoop(site.stream("threads", str(site.lives)), site.plan.sizes.overtaken, site.died)
    site.machine.boot(loop)
    life = Life(site)
    try:
        run_loop(lambda: _ending(site, loop, life), loop)
    except Died:
        if site.machine.disk.is_off:
            site.machine.crash()
    except LoopStuck as stuck:
        raise Violation("liveness", str(stuck)) from stuck
    except Ended as ended:
        site.note("ended: %s", ended)
    except DID_NOT_START as error:
        if not _has_ended_in_start(site):
            raise
        if isinstance(error, BookieError):
            site.machine.halt()
            site.under_way.clear()
            site.was_made_of_log = True
            salvage_log(site, error)
        else:
            site.note("did not start: %s", error)
    finally:
        site.machine.halt()
        site.under_way.clear()
    if site.is_done and loop.problems:
        raise Violation("problems", loop.problems[0])


def _has_ended_in_start(site: Site) -> bool:
    return site.under_way["start"] > 0


async def _ending(site: Site, loop: ThreadedLoop, life: Life) -> None:
    """When it ends, however that is, nothing of this process happens any more."""
    try:
        await life.run()
    finally:
        loop.die()


def _between_lives(site: Site) -> None:
    """What ended the process, if it was a step."""
    if not site.steps or not isinstance(site.steps[0], steps.End):
        return
    step = site.steps.popleft()
    site.note("%r", step)
    match step:
        case steps.LoseIndex():
            site.was_made_of_log = True
            note_fences_without_record(site)
            site.owes_limbo = False
            site.machine.lose_index()
        case steps.RebuildIndex():
            site.was_made_of_log = True
            until_done(site, "rebuild", lambda: rebuild_index(site))
        case steps.OlderCopy():
            until_done(site, "marking", lambda: site.machine.index.set_limbo_due(True))
            site.owes_limbo = True
        case steps.LoseSegment(nth):
            lose_segment(site, nth)
        case steps.Restart():
            pass


# --- the product, made small and watched ----------------------------------------------------------


@contextmanager
def _small_sizes(sizes: Sizes) -> Iterator[None]:
    """The product's own bounds, small enough to be met in every run."""
    bounds = (
        (appender, "SMALL_GROUP_BYTES", sizes.group // 2),
        (appender, "ZERO_STEP_BYTES", max(sizes.group // 2, sizes.step)),
        (appender, "RESERVE_STEP_BYTES", sizes.step),
        (group_commit, "GROUP_BYTES_MAX", sizes.group),
        (compactor, "BATCH_BYTES", sizes.batch),
        (compactor, "STATES_PER_BATCH", sizes.few),
        (collector, "LEDGERS_PER_BATCH", sizes.few),
        (collector, "FRAMES_PER_BATCH", sizes.few),
        (limbo, "LEDGERS_PER_BATCH", sizes.few),
        (ledger_states, "STATES_MAX", sizes.states),
        (index, "ROWS_PER_CALL", sizes.few),
        (stored_frames, "OPEN_SEGMENTS_MAX", sizes.few),
        (gap_filling, "STORE_BYTES", sizes.batch),
        (inventory, "WINDOW_ENTRIES", 4 * sizes.few),
        (inventory, "FRAMES_PER_WINDOW", sizes.few),
        (inventory, "BATCH_BYTES", sizes.batch),
        (segment_check, "STEP_BYTES", sizes.batch),
        (bookie_module, "BookieLogWriter", SteppedLogWriter),
    )
    with ExitStack() as stack:
        for module, name, bound in bounds:
            stack.enter_context(patch.object(module, name, bound))
        yield


UNDER_WAY = (
    (Compactor, "empty", "emptying"),
    (Compactor, "_move_frames", "moving"),
    (Compactor, "_move_states", "states"),
    (Compactor, "_delete", "dropping segments"),
    (Bookie, "remove_segments", "deleting"),
    (Bookie, "forget", "forgetting"),
    (Bookie, "drop", "dropping"),
    (Bookie, "checkpoint", "checkpoint"),
    (Scrubber, "_mend", "mending"),
)
"""What is called what while it is under way."""


@contextmanager
def _watched(site: Site) -> Iterator[None]:
    """Notes what the product does, from outside; its log is silent, since what it tells is meant to happen."""
    bookie_log = logging.getLogger("bookie")
    was_disabled, bookie_log.disabled = bookie_log.disabled, True
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with ExitStack() as stack:
        stack.callback(logging.disable, before)
        stack.callback(setattr, bookie_log, "disabled", was_disabled)
        for owner, name, what in UNDER_WAY:
            stack.enter_context(patch.object(owner, name, _counting(site, getattr(owner, name), what)))
        stack.enter_context(patch.object(Compactor, "_has_copy", _noting_copies(site)))
        stack.enter_context(patch.object(PageReader, "_read_once", _noting_looks()))
        stack.enter_context(patch.object(PageReader, "read", _noting_second_looks(site)))
        yield


def _counting(site: Site, method: Callable[..., Any], what: str) -> Callable[..., Any]:
    async def counted(*arguments: Any, **options: Any) -> Any:
        site.under_way[what] += 1
        try:
            return await method(*arguments, **options)
        finally:
            site.under_way[what] -= 1

    return counted


def _noting_copies(site: Site) -> Callable[..., bool]:
    has_copy = Compactor._has_copy

    def noting(*arguments: Any) -> bool:
        found = has_copy(*arguments)
        if found:
            site.reached(UpkeepProbe.COPY_FOUND)
        return found

    return noting


_LOOKS: ContextVar[list[bool]] = ContextVar("_LOOKS")
"""Whether each look of one read has met damage."""


def _noting_looks() -> Callable[..., Any]:
    read_once = PageReader._read_once

    async def noting(*arguments: Any) -> Any:
        places, page = await read_once(*arguments)
        _LOOKS.get([]).append(bool(page.damaged))
        return places, page

    return noting


def _noting_second_looks(site: Site) -> Callable[..., Any]:
    read = PageReader.read

    async def noting(*arguments: Any) -> Any:
        looks: list[bool] = []
        token = _LOOKS.set(looks)
        try:
            page = await read(*arguments)
        finally:
            _LOOKS.reset(token)
        if looks[0] and not looks[-1]:
            site.reached(UpkeepProbe.READ_AGAIN)
        return page

    return noting
