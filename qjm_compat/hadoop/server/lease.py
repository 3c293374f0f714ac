"""Ensures one live daemon per name: the name is a key under a lease that the daemon renews."""

from __future__ import annotations

from dataclasses import replace

from metadata.leases.held_name import HeldName
from metadata.records.journal_node import JournalNodeRecord, decode
from metadata.store import MetadataStore, Versioned

from ..errors import NameInUse


class NameLease(HeldName):
    """The name of one daemon. If another daemon has taken the name, that daemon is alive, so this one stops at once."""

    leases_to_wait_again = 0

    def __init__(self, store: MetadataStore, record: JournalNodeRecord, lease_seconds: float) -> None:
        super().__init__(store, record.key, lease_seconds, record.session, f"the name {record.name}")
        self._record = record

    def _value(self, session: bytes) -> bytes:
        return replace(self._record, session=session).encode()

    def _session_of(self, found: Versioned) -> bytes:
        return decode(found.key, found.value).session

    def _taken(self) -> NameInUse:
        name = self._record.name
        return NameInUse(f"another daemon serves as {name}; stop it, or give this daemon another name")
