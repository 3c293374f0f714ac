"""Caches a writer's signed last-add-confirmed, so that it is signed only once for all bookies."""

from __future__ import annotations

from bookie.wire import LacStatement

from ..integrity.digest import Digester
from ..protocol.append_pipeline import AppendPipeline


class SignedLac:
    """The signed LAC of one writer."""

    def __init__(self, digester: Digester, machine: AppendPipeline) -> None:
        self._digester = digester
        self._machine = machine
        self._signed: LacStatement | None = None

    def now(self) -> LacStatement | None:
        """Returns the current statement; None as long as no entry is confirmed."""
        confirmed = self._machine.last_add_confirmed
        if confirmed < 0:
            return None
        if self._signed is None or self._signed.last_entry != confirmed:
            self._signed = self._digester.sign_lac(confirmed, self._machine.confirmed_length)
        return self._signed
