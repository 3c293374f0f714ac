"""Results of the offloader's last round, for observers of the cluster: JSON under one key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore

FORMAT_VERSION = 1

LEDGERS_NAMED_MAX = 32
"""Maximum number of ledgers listed in each of `next_ledgers`, `failed` and `missing`."""


@dataclass(frozen=True, slots=True)
class OffloaderState:
    """`offloader`: the offloader's name; `at_ms`: when its round ended. `stored`: number of ledgers with a copy in an
    object store; `on_bookies`: how many of these also have copies on bookies. `waiting`: number of ledgers that are
    due; `next_ledgers`: the first of them. `with_password`: number of ledgers that are due but can be copied only by
    their owner. `failed`: for each ledger that was not copied, the reason. `missing`: for each ledger with an object
    that cannot be found, the reason."""

    offloader: str
    url: str
    at_ms: int
    stored: int = 0
    stored_bytes: int = 0
    on_bookies: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    with_password: int = 0
    next_ledgers: tuple[int, ...] = ()
    failed: Mapping[int, str] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)


async def write(store: MetadataStore, state: OffloaderState) -> None:
    """Writes the state. Raises MetadataError."""
    nonce = settled_writes.new_nonce().hex()
    values = {"format_version": FORMAT_VERSION, "nonce": nonce, **asdict(state)}
    await settled_writes.put(store, keys.OFFLOADER, json.dumps(values).encode())


async def read(store: MetadataStore) -> OffloaderState | None:
    """Reads the state; returns None if no offloader has run yet. Raises MetadataError, or BadRecord for the state of a
    newer program."""
    found = await store.get(keys.OFFLOADER)
    if found is None:
        return None
    try:
        values = json.loads(found.value)
        del values["nonce"]
        if values.pop("format_version") != FORMAT_VERSION:
            raise ValueError("a newer program wrote this record")
        values["next_ledgers"] = tuple(values["next_ledgers"])
        for name in ("failed", "missing"):
            values[name] = {int(ledger_id): why for ledger_id, why in values[name].items()}
        return OffloaderState(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadRecord(keys.OFFLOADER, str(error)) from error
