"""What every part of a run shares."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.engine.processes import HostLoop
from tests.simulation.engine.world import Violation
from tests.simulation.shells.metadata import VirtualMetadata
from tests.simulation.shells.site import Site
from tests.simulation.shells.watch import Watch

from .plan import Plan


class ClusterSite(Site):
    """`directory` is where the machines keep their files; `broken` gathers what is seen where nothing can be raised."""

    def __init__(self, plan: Plan, loop: HostLoop, directory: Path) -> None:
        super().__init__(plan.seed, loop, plan.pace)
        self.plan = plan
        self.host_loop = loop
        self.directory = directory
        self.watch = Watch()
        self.metadata = VirtualMetadata(self, self.watch)
        self.broken: list[Violation] = []
        self.is_calm = False

    def violated(self, violation: Violation) -> None:
        """The run fails with this, whoever swallows it."""
        self.world.note("broken: %s", violation)
        self.broken.append(violation)
