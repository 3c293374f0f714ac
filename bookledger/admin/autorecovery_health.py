"""The HTTP metrics and readiness of `bookledger autorecovery`."""

from __future__ import annotations

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.logs.log_sights import AskLag, lag_unknown
from bookie.upkeep.upkeep_metrics import AuditorMetrics
from metadata.counting import facts
from metadata.counting.counting_store import CountingStore
from metadata.counting.facts import Finding

from .http_content import HttpContent
from .process_metrics import process_registry

NOT_YET = "it has not checked the cluster yet"


class AutorecoveryHealth:
    """The health of an auditor, which need not exist yet: `has_started` adds the auditor when it starts."""

    def __init__(self) -> None:
        self._registry = process_registry()
        self._store: CountingStore | None = None
        self.ask_lag: AskLag = lag_unknown

    def http_content(self) -> HttpContent:
        """Returns the content for `serving_http`."""
        return HttpContent(self._registry, self._findings)

    def has_started(self, auditor: Auditor, store: CountingStore) -> None:
        self._registry.register(AuditorMetrics(auditor, store.counts))
        self._store = store
        auditor.retention.ask_lag = self.ask_lag

    def _findings(self) -> list[Finding]:
        if self._store is None:
            return [facts.STARTED.found(NOT_YET)]
        return [facts.STARTED.found(""), self._store.finding()]
