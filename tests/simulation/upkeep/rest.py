"""What is done to a bookie's directory while no process runs: salvage, and a new index. The power may go in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from bookie.disk.disk import Disk
from bookie.errors import BookieError
from bookie.index.claims import check_before_rebuild, claims_of
from bookie.index.index import Index
from bookie.offline import log_salvage, rebuild
from bookie.offline.damage import LogScan
from tests.bookie.logs import INCARNATION
from tests.simulation.engine.threads import Died
from tests.simulation.engine.world import Violation

from .probes import UpkeepProbe
from .shelf import SHELF
from .site import Site

TRIES_MAX = 4
"""A salvage is interrupted once at most, and a new index shows what it had to do."""


def until_done(site: Site, name: str, work: Callable[[], None]) -> None:
    """Does it again where the power went meanwhile."""
    for _ in range(TRIES_MAX):
        site.under_way[name] += 1
        try:
            work()
        except Died:
            site.died()
            site.machine.crash()
        except OSError as error:  # a failed sync: whoever did it begins again
            site.note("the %s failed: %s", name, error)
        else:
            site.under_way.clear()
            return
    raise Violation("liveness", f"the {name} does not come to its end")


def salvaged(disk: Disk, aside: Disk, index: Index) -> bool:
    """As `bookledger bookie salvage`; whether the index fits the log that is left."""
    claims = claims_of(index)
    scan = LogScan(disk, INCARNATION, claims)
    for damaged in log_salvage.find(scan):
        log_salvage.mend(disk, aside, damaged, INCARNATION, claims)
    return scan.checkpoint_fits


def fill(disk: Disk, index: Index, *, has_lost: bool = False) -> None:
    """As `bookledger bookie rebuild-index` without an old index, into this empty one. Raises DamagedLog."""
    with patch.object(rebuild, "Index", lambda _: index):
        rebuild._fill(Path(), cast("Any", disk), INCARNATION, has_lost)


def rebuild_index(site: Site) -> None:
    """The old index stays where the power goes, or the log is damaged: it is salvaged then."""
    old, index = site.machine.index, SHELF.take()
    try:
        check_before_rebuild(site.machine.disk, old)
        fill(site.machine.disk, index, has_lost=old.limbo_is_due)
    except BookieError as error:
        SHELF.give_back(index)
        salvage_log(site, error)
        rebuild_index(site)
    except (Died, OSError):
        SHELF.give_back(index)
        raise
    else:
        site.machine.replace_index(index)


def salvage_log(site: Site, why: BaseException) -> None:
    """The bookie did not start: somebody has it salvaged, and the index made anew where that is advised."""
    site.note("refused: %s", why)
    if not site.is_damaged:
        raise Violation("B2", f"the bookie refuses to start, and nothing is damaged: {why}")
    site.reached(UpkeepProbe.REFUSED_TO_START)
    until_done(site, "salvage", lambda: _salvage(site))


def _salvage(site: Site) -> None:
    machine = site.machine
    if not salvaged(machine.disk, machine.aside, machine.index):
        rebuild_index(site)
