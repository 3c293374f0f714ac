"""Acceptors that are brought up to date, lost and replaced: J1 to J6, and all have everything in the end."""

from __future__ import annotations

from tests.simulation.engine.contract import LayerContract
from tests.simulation.journals.probes import SyncProbe

from .layer import LAYER


class TestJournalSync(LayerContract):
    layer = LAYER
    seeds = 400
    rarest = (SyncProbe.PURGED,)
