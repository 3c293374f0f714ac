"""What the bookies of one run share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bookie.index.index import Index
from tests.simulation.cores.plans.plan import Plan

from .atlas import Atlas
from .probes import WetProbe
from .shelf import Shelf
from .wire import Messages

if TYPE_CHECKING:
    from .bookie import WetBookie


@dataclass(slots=True)
class Rack:
    """`power_off`: before which operation of a bookie's disk the power goes, once; `draws_faults`: whether bookies
    have troubles of their own besides those of the plan."""

    plan: Plan
    atlas: Atlas
    shelf: Shelf
    power_off: Mapping[str, int] = field(default_factory=dict)
    draws_faults: bool = True
    bookies: dict[str, WetBookie] = field(default_factory=dict)
    messages: Messages = field(default_factory=Messages)
    probes: set[WetProbe] = field(default_factory=set)
    _taken: list[Index] = field(default_factory=list)

    def reached(self, probe: WetProbe) -> None:
        """A path was taken."""
        self.probes.add(probe)

    def take_index(self) -> Index:
        """An empty index, until the run ends."""
        self._taken.append(self.shelf.take())
        return self._taken[-1]

    def close(self) -> None:
        for index in self._taken:
            self.shelf.give_back(index)
        self._taken.clear()
