"""Clusters that are only metadata: what a console shows of them needs no bookie."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from metadata import keys, open_store
from metadata.records import ledger_codec
from metadata.records.cluster import Cookie, cluster_id
from metadata.records.ledger_ids import take_ledger_ids
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.sqlite.sqlite_uri import uri_of
from metadata.store import MetadataStore

BOOKIES = tuple(BookieRef(f"b{n}", f"incarnation-{n}") for n in range(1, 5))

CREATED_MS = 1_700_000_000_000


def a_record(ledger_id: int, *, fragments: int = 1, **more: object) -> LedgerRecord:
    """Closed, of three copies, ten entries a fragment."""
    made = tuple(
        Fragment(10 * n, tuple(BOOKIES[(ledger_id + n + k) % len(BOOKIES)] for k in range(3)), 1000 * n)
        for n in range(fragments)
    )
    ended: dict[str, object] = {
        "state": LedgerState.CLOSED,
        "last_entry": 10 * fragments - 1,
        "length_bytes": 1000 * fragments,
    }
    return LedgerRecord(ledger_id, Shape(3, 3, 2), made, created_ms=CREATED_MS, **ended | more)  # type: ignore[arg-type]


async def with_bookies(
    store: MetadataStore, *, living: int = len(BOOKIES), fault_domain: str = "/rack1"
) -> None:
    """All formatted; so many of them registered, without a lease."""
    name = await cluster_id(store, create=True)
    assert name is not None
    for n, bookie in enumerate(BOOKIES):
        cookie = Cookie(name, bookie.bookie_id, bookie.incarnation)
        await store.create(keys.cookie(bookie.bookie_id), cookie.encode())
        if n < living:
            lives = Registration(
                bookie, "127.0.0.1:1", fault_domain, disk_bytes_total=1 << 40, disk_bytes_free=1 << 39
            )
            await store.create(lives.key, lives.encode())


async def a_cluster_in_memory(*, ledgers: int = 0, living: int = len(BOOKIES)) -> str:
    """Its URI; it is there for this process."""
    uri = f"memory://{uuid.uuid4()}"
    store = await open_store(uri)
    await with_bookies(store, living=living)
    for ledger_id in range(1, ledgers + 1):
        await LedgerStore(store).create(a_record(ledger_id))
    if ledgers:
        await take_ledger_ids(store, ledgers)
    return uri


async def a_large_cluster(
    directory: Path, ledgers: int, *, living: int = len(BOOKIES), last: dict[str, object] | None = None
) -> str:
    """Its records are put into the file at once: a commit each would take minutes. `last`: what the last has else."""
    path = directory / "metadata.db"
    store = await open_store(uri_of(path), create=True)
    await with_bookies(store, living=living)
    await take_ledger_ids(store, ledgers)
    await store.close()
    rows = (
        (
            keys.ledger(n),
            ledger_codec.encode(a_record(n, fragments=1 + n % 3, **_more(n == ledgers, last))),
            1,
        )
        for n in range(1, ledgers + 1)
    )
    with sqlite3.connect(path) as db:
        db.executemany("INSERT INTO keys (key, value, version) VALUES (?, ?, ?)", rows)
    db.close()
    return uri_of(path)


def _more(is_last: bool, last: dict[str, object] | None) -> dict[str, object]:
    return last if is_last and last else {}
