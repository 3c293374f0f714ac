"""One plan, one run. Raises Failed with the plan and the end of its trace where a promise was broken."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from pathlib import Path

from tests.simulation.engine.chance import Stream, key_of
from tests.simulation.engine.loop import LoopStuck
from tests.simulation.engine.loop import run as run_loop
from tests.simulation.engine.processes import HostLoop
from tests.simulation.engine.runs import Failed, Outcome, warnings_are
from tests.simulation.engine.world import Violation
from tests.simulation.upkeep.shelf import MEMORY

from .cluster import Cluster
from .plan import Plan
from .site import ClusterSite


def play(plan: Plan, tracing: bool, kind: type[Cluster] = Cluster) -> Outcome:
    """One whole run, of whatever happens to that kind of cluster. Raises Failed."""
    del tracing  # what is noted costs little here
    directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    loop = HostLoop(Stream(key_of(plan.seed, "threads")), plan.overtaken)
    site = ClusterSite(plan, loop, directory)
    silence = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # what goes wrong here is meant to
    try:
        _run(kind(site), loop)
    finally:
        logging.disable(silence)
        shutil.rmtree(directory)
    for why in (*site.broken, *(Violation("problems", problem) for problem in loop.problems)):
        raise Failed(plan, why, site.world.trace) from why
    confirmed = [watched.checker.confirmed_through + 1 for watched in site.watch]
    end = f"{loop.iterations} turns, {len(confirmed)} ledgers, {sum(confirmed)} confirmed, no violation"
    return Outcome(plan, tuple(site.world.trace), frozenset(site.world.probes), end)


def _run(cluster: Cluster, loop: HostLoop) -> None:
    """What ends it is the first thing that was broken, unless something was before."""
    broken = cluster.site.broken
    with warnings_are(loop.problems):
        try:
            run_loop(lambda: _watched(cluster), loop)
        except LoopStuck as stuck:
            broken.insert(0, Violation("liveness", repr(stuck)))  # before what came of ending everybody
        except Exception as error:  # a fault of the product or of this harness
            raise Failed(cluster.site.plan, error, cluster.site.world.trace) from error
        finally:
            cluster.hosts.close()
        gc.collect(0)  # all that this run has made is young


async def _watched(cluster: Cluster) -> None:
    """What comes of ending a run that has failed is not of interest."""
    try:
        await cluster.run()
    except Violation as violation:
        cluster.site.broken.append(violation)
