"""A million ledgers in a real etcd: listing them, the auditor's pass, what a client that lists needs of memory."""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import replace
from pathlib import Path

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.cluster_view import look
from bookie.upkeep.healing.ledger_counts import Condition
from bookie.upkeep.repair_client import NoPeers
from bookie.upkeep_config import UpkeepConfig
from bookledger.cluster.survey import survey
from metadata import keys, opened_store
from metadata.etcd import etcd_pb2 as pb
from metadata.records import ledger_codec
from metadata.records.cluster import Cookie, cluster_id
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import MetadataStore
from tests.support.etcd import EtcdServer

LEDGERS = 1_000_000
PER_TRANSACTION = 120
"""Keys; etcd takes 128."""

BOOKIES = [BookieRef(f"bookie-{n}", f"incarnation-{n}-of-thirty-six-characters--") for n in range(10)]
SHAPE = Shape(3, 3, 2)
PREFIX = "million"


async def measure(scratch: Path, share: float) -> None:
    with EtcdServer(scratch, quota_bytes=8 * 2**30) as etcd:
        count = int(LEDGERS * share)
        began = time.monotonic()
        await asyncio.to_thread(_fill, etcd, count)
        print(f"{count} ledgers made in {time.monotonic() - began:.0f} s")
        async with opened_store(f"etcd://{etcd.endpoint}/{PREFIX}?timeout=30") as store:
            await _look(store, count)


def _fill(etcd: EtcdServer, count: int) -> None:
    for first in range(1, count + 1, PER_TRANSACTION):
        puts = []
        for ledger_id in range(first, min(first + PER_TRANSACTION, count + 1)):
            key = f"{PREFIX}/{keys.ledger(ledger_id)}".encode()
            puts.append(pb.RequestOp(request_put=pb.PutRequest(key=key, value=_record(ledger_id))))
        etcd.call("KV/Txn", pb.TxnRequest(success=puts).SerializeToString())


def _record(ledger_id: int) -> bytes:
    ensemble = tuple(BOOKIES[(ledger_id + n) % len(BOOKIES)] for n in range(SHAPE.ensemble_size))
    fragments = (Fragment(0, ensemble),)
    record = LedgerRecord(
        ledger_id,
        SHAPE,
        fragments,
        LedgerState.CLOSED,
        last_entry=9999,
        length_bytes=10_000_000,
        nonce=bytes(16),
    )
    return ledger_codec.encode(replace(record, created_ms=1_700_000_000_000))


async def _look(store: MetadataStore, count: int) -> None:
    name = await cluster_id(store, create=True)
    assert name is not None
    for bookie in BOOKIES:
        registration = Registration(bookie, f"{bookie}:3181")
        await store.create(registration.key, registration.encode())
        cookie = Cookie(name, bookie.bookie_id, bookie.incarnation)
        await store.create(keys.cookie(bookie.bookie_id), cookie.encode())
    before, began, listed = _peak_mib(), time.monotonic(), 0
    async for _ in LedgerStore(store).list():
        listed += 1
    assert listed == count
    _tell("listed", began, count, before)
    auditor = Auditor(store, BOOKIES[0], UpkeepConfig(), time.time, NoPeers())
    view = await look(store, 600_000)
    began = time.monotonic()
    audit = await auditor.audit(view)
    assert (audit.ledgers.total(), audit.to_heal) == (count, 0)
    _tell("audited", began, count, before)
    began = time.monotonic()
    seen = await survey(store, wait_ms=600_000)
    assert seen is not None and seen.fragments[Condition.WHOLE] == count
    _tell("surveyed, for cluster status,", began, count, before)


def _tell(what: str, began: float, count: int, before_mib: int) -> None:
    took, more = time.monotonic() - began, _peak_mib() - before_mib
    print(f"{what} in {took:.1f} s, {took / count * 1e6:.0f} microseconds each, {more} MiB more memory")


def _peak_mib() -> int:
    """The most that this process has had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
