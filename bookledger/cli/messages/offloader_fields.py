"""The offloader's state, as commands print it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metadata.records.cold.offloader_state import OffloaderState


def state_fields(state: OffloaderState) -> dict[str, Any]:
    """Returns one row of output."""
    return {
        "offloader": state.offloader,
        "object_store": state.url,
        "stored_ledgers": state.stored,
        "stored_bytes": state.stored_bytes,
        "on_bookies_too": state.on_bookies,
        "waiting_ledgers": state.waiting,
        "waiting_bytes": state.waiting_bytes,
        "next_ledgers": list(state.next_ledgers),
        "with_password": state.with_password,
        "failed": _by_ledger(state.failed),
        "missing": _by_ledger(state.missing),
    }


def _by_ledger(reasons: Mapping[int, str]) -> list[str]:
    prefixed = ((f"ledger {ledger_id}: ", why) for ledger_id, why in sorted(reasons.items()))
    return [prefix + why.removeprefix(prefix) for prefix, why in prefixed]
