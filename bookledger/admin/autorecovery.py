"""The HTTP metrics and readiness of `bookledger autorecovery`."""

from __future__ import annotations

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.metrics import AuditorMetrics
from metadata.counting.counting_store import CountingStore

from .process_metrics import process_registry
from .subject import Subject

NOT_YET = "it has not looked at the cluster yet"


class Auditing:
    """An auditor that is not made yet; `has_started` names it."""

    def __init__(self) -> None:
        self._registry = process_registry()
        self._is_ready = False

    def subject(self) -> Subject:
        """For `serving_http`."""
        return Subject(self._registry, lambda: "" if self._is_ready else NOT_YET)

    def has_started(self, auditor: Auditor, store: CountingStore) -> None:
        self._registry.register(AuditorMetrics(auditor, store))
        self._is_ready = True
