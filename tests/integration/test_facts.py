"""Every fact of `metadata/counting/facts`, by situation, through every face that tells of a cluster."""

from __future__ import annotations

import html
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from bookledger.admin.bookies import Bookies
from bookledger.admin.http.server import serving_http
from bookledger.cli.cluster.status import status
from bookledger.console.console import Console
from metadata import keys, opened_store
from metadata.backup import hold
from metadata.backup.hold import Noticed
from metadata.counting.facts import (
    ACCEPTED,
    ANSWERING,
    AUDITOR,
    BELONGING,
    BRAKE,
    CERTIFICATE,
    CERTIFICATE_TWO_DAYS,
    CERTIFICATE_TWO_WEEKS,
    CLOSED,
    COOKIES,
    COPIES,
    CURSORS,
    FORGOTTEN,
    METADATA,
    NAMED,
    OBJECTS,
    OF_A_CLUSTER,
    REACHABLE,
    READABLE,
    REGISTERED,
    ROOM,
    SAFE,
    SPACE,
    Fact,
)
from metadata.etcd.status import why_unsafe
from metadata.healing import lease_lock, operator_requests
from metadata.healing.lease_lock import LeaseLock, Unreachable
from metadata.healing.operator_requests import Order, OrderKind
from metadata.records import registration
from metadata.records.cold import offloader_state
from metadata.records.cold.offloader_state import OffloaderState
from metadata.records.ledger_record import LedgerState
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.sqlite.sqlite_uri import uri_of
from metadata.sqlite.store import SqliteStore
from metadata.store import MetadataStore, StoreHealth
from tests.support.aio import run
from tests.support.made_clusters import BOOKIES, a_record, with_bookies

Situation = Callable[[MetadataStore], Awaitable[object]]

BK4 = BOOKIES[3]
FULL = "etcd is out of space, and refuses changes: make room"


async def changed(store: MetadataStore, name: str, **fields: Any) -> None:
    found = await store.get(keys.bookie(name))
    assert found is not None
    now = replace(registration.decode(found.key, found.value), **fields)
    await store.replace(found.key, now.encode(), found.version)


async def gone(store: MetadataStore, *found: str) -> None:
    for key in found:
        item = await store.get(key)
        assert item is not None
        await store.delete(key, item.version)


async def ordered(store: MetadataStore, name: str, kind: OrderKind) -> None:
    await operator_requests.give(store, Order(name, kind, 1))


async def lacking(store: MetadataStore) -> None:
    await LedgerStore(store).create(a_record(2).with_lacking(0, 0, 0))


async def left_open(store: MetadataStore) -> None:
    still: dict[str, Any] = {"state": LedgerState.IN_RECOVERY, "last_entry": None, "length_bytes": None}
    await LedgerStore(store).create(a_record(2, **still))


async def nobody_elected(store: MetadataStore) -> None:
    await gone(store, keys.AUDITOR)


async def went_back(store: MetadataStore) -> None:
    await hold.begin(store, backup_ms=0, now_ms=1, noticed=Noticed("b1", "its key", 3, 7))


async def one_is_away(store: MetadataStore) -> None:
    await gone(store, keys.bookie("b4"))


async def most_are_away(store: MetadataStore) -> None:
    await gone(store, *(keys.bookie(name) for name in ("b2", "b3", "b4")))


async def given_up_and_named(store: MetadataStore) -> None:
    await one_is_away(store)
    await ordered(store, "b4", OrderKind.GIVEN_UP)


async def all_are_full(store: MetadataStore) -> None:
    for one in BOOKIES:
        await changed(store, one.bookie_id, writable=False)


async def living_without_cookie(store: MetadataStore) -> None:
    await gone(store, keys.cookie("b4"))


async def absent_without_cookie(store: MetadataStore) -> None:
    await gone(store, keys.cookie("b4"), keys.bookie("b4"))


async def living_and_given_up(store: MetadataStore) -> None:
    await ordered(store, "b4", OrderKind.GIVEN_UP)


async def out_of_reach(store: MetadataStore) -> None:
    await nobody_elected(store)
    unreachable = {"b4": Unreachable("127.0.0.1:1", "no answer within 10 s")}
    await elected(store, unreachable=unreachable)


async def silent(store: MetadataStore) -> None:
    await nobody_elected(store)
    await elected(store, silent_cursors=("orders/billing",))


async def without_objects(store: MetadataStore) -> None:
    state = OffloaderState(
        "host/1", "s3://archive", 1, missing={7: "s3://archive/x/0: there is no such object"}
    )
    await offloader_state.write(store, state)


async def elected(store: MetadataStore, **more: Any) -> None:
    lease = await store.grant_lease(600)
    await store.create(keys.AUDITOR, lease_lock.encode(LeaseLock(BOOKIES[0], 1, **more), b"n"), lease=lease)


async def nearly_full(store: MetadataStore) -> None:
    await changed(store, "b4", disk_bytes_total=100, disk_bytes_free=1)


async def expired(store: MetadataStore) -> None:
    await changed(
        store, "b4", problems={CERTIFICATE.name: "cert.pem ran out on 2026-01-01 00:00 UTC: renew it"}
    )


async def almost_expired(store: MetadataStore) -> None:
    await changed(store, "b4", problems={CERTIFICATE_TWO_DAYS.name: "cert.pem ends in 9 hours: renew it"})


async def expires_soon(store: MetadataStore) -> None:
    await changed(store, "b4", problems={CERTIFICATE_TWO_WEEKS.name: "cert.pem ends in 9 days: renew it"})


async def unreadable(store: MetadataStore) -> None:
    why = "segments of its log could not be read: 00000001.log: Permission denied"
    await changed(store, "b4", problems={READABLE.name: why})


async def as_it_is(_: MetadataStore) -> None:
    """What is amiss is the store itself, which says so."""


SITUATIONS: list[tuple[Fact, Situation, str]] = [
    (COPIES, lacking, "1 fragments have missing or misplaced copies"),
    (CLOSED, left_open, "1 ledgers are not closed, and seem to have no writer"),
    (METADATA, as_it_is, FULL),
    (AUDITOR, nobody_elected, "there is no auditor"),
    (ACCEPTED, went_back, "that was not accepted (bookie b1 found its key at 3, but expected 7 or more)"),
    (REGISTERED, one_is_away, "not registered: b4; their data is copied elsewhere after 600 s of absence"),
    (
        BRAKE,
        most_are_away,
        "b2, b3, b4 are absent: nothing is copied while so many are absent; decommission those",
    ),
    (FORGOTTEN, given_up_and_named, "given up, but ledgers still refer to it: b4"),
    (SPACE, all_are_full, "every live bookie is read-only"),
    (ROOM, nearly_full, "read-only, or nearly full: b4 (99% of its disk in use)"),
    (COOKIES, living_without_cookie, "so a restart would fail: b4"),
    (NAMED, absent_without_cookie, "absent bookies that have no cookie in the metadata: b4"),
    (BELONGING, living_and_given_up, "alive, but given up, so no entries are stored on it: b4"),
    (REACHABLE, out_of_reach, "unreachable for the auditor: b4 (127.0.0.1:1: no answer within 10 s)"),
    (CERTIFICATE, expired, "b4: cert.pem ran out on 2026-01-01 00:00 UTC"),
    (CERTIFICATE_TWO_DAYS, almost_expired, "b4: cert.pem ends in 9 hours"),
    (CERTIFICATE_TWO_WEEKS, expires_soon, "b4: cert.pem ends in 9 days"),
    (READABLE, unreadable, "b4: segments of its log could not be read: 00000001.log: Permission denied"),
    (
        CURSORS,
        silent,
        "cursors that do not move are ignored, so records that they have not read are deleted: orders/billing",
    ),
    (
        OBJECTS,
        without_objects,
        "objects of ledgers are missing: 7 (s3://archive/x/0: there is no such object)",
    ),
    (SAFE, as_it_is, "etcd is version 3.5.2, which may lose confirmed writes"),
]


@pytest.fixture(autouse=True)
def nobody_has_called_the_bookies(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are none behind the made registrations."""
    monkeypatch.setattr("bookledger.console.live.SILENT_SECONDS_MAX", 0.0)


def told_of(uri: str) -> tuple[dict[str, Any], str]:
    """What the API and the console's first page say."""

    async def ask() -> tuple[dict[str, Any], str]:
        pages, content = Console(uri), Bookies(0).http_content()
        content.pages = pages.routes()
        async with (
            serving_http("127.0.0.1", 0, content) as address,
            pages.open(),
            aiohttp.ClientSession(f"http://{address}") as session,
        ):
            async with session.get("/api/v1/cluster") as answer:
                api = await answer.json()
            async with session.get("/") as answer:
                return api, html.unescape(await answer.text())

    return run(ask())


def made(uri: str, situation: Situation) -> None:
    async def make() -> None:
        async with opened_store(uri, create=True) as store:
            await with_bookies(store)
            await LedgerStore(store).create(a_record(1))
            await elected(store)
            await situation(store)

    run(make())


def say_of_itself(monkeypatch: pytest.MonkeyPatch, fact: Fact) -> None:
    said = {
        METADATA: StoreHealth("etcd", "3.6.16", 1, refuses=FULL),
        SAFE: StoreHealth("etcd", "3.5.2", 1, doubt=why_unsafe("3.5.2")),
    }

    async def health(_: SqliteStore) -> StoreHealth:
        return said[fact]

    if fact in said:
        monkeypatch.setattr(SqliteStore, "health", health)


def test_every_fact_of_a_cluster_has_a_situation() -> None:
    """Whether bookies answer is known where somebody looks on in the console only (`test_oldest_fact`)."""
    assert {fact for fact, _, _ in SITUATIONS} == set(OF_A_CLUSTER) - {ANSWERING}


@pytest.mark.parametrize(("fact", "situation", "why"), SITUATIONS, ids=[one[0].name for one in SITUATIONS])
def test_what_is_amiss_is_told_by_every_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fact: Fact, situation: Situation, why: str
) -> None:
    say_of_itself(monkeypatch, fact)
    uri = uri_of(tmp_path / "metadata.db")
    made(uri, situation)
    api, page = told_of(uri)
    (row,) = [one for one in api["facts"] if one["fact"] == fact.name]
    assert row["verdict"] == "amiss" and why in row["why"]
    assert row["why"] in page
    typed = CliRunner().invoke(status, [f"--metadata={uri}"])
    assert row["why"] in typed.stdout
    known = json.loads(CliRunner().invoke(status, [f"--metadata={uri}", "--json"]).stdout)
    assert row["why"] in [one["why"] for one in known["facts"] if one["verdict"] == "amiss"]
    if not fact.not_whole:
        assert (api["condition"], typed.exit_code, known["whole"]) == ("whole", 0, True)
        assert "The cluster is whole" in page
    else:
        assert (api["condition"], typed.exit_code, known["whole"]) == ("wounded", 1, False)
        assert row["why"] in known["why_not_whole"]
        assert "The cluster is not whole" in page and "NOT WHOLE" in typed.stdout


def test_a_cluster_in_which_all_is_well_is_whole_in_every_face(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    made(uri, as_it_is)
    api, page = told_of(uri)
    assert {(one["fact"], one["verdict"]) for one in api["facts"]} == {
        (fact.name, "unknown" if fact is ANSWERING else "well") for fact in OF_A_CLUSTER
    }
    assert api["condition"] == "whole" and "The cluster is whole" in page
    typed = CliRunner().invoke(status, [f"--metadata={uri}"])
    assert typed.exit_code == 0 and ": whole" in typed.stdout


def test_what_is_not_known_is_neither_well_nor_amiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ledger was counted yet, and no member of the store says how it is."""
    monkeypatch.setattr("bookledger.admin.api.cluster_state.COUNT_SECONDS_MAX", 0.0)

    async def health(_: SqliteStore) -> StoreHealth:
        return StoreHealth("etcd", "", 0, is_reported=False)

    monkeypatch.setattr(SqliteStore, "health", health)
    uri = uri_of(tmp_path / "metadata.db")
    made(uri, as_it_is)
    api, page = told_of(uri)
    unknown = {one["fact"] for one in api["facts"] if one["verdict"] == "unknown"}
    assert unknown == {fact.name for fact in (COPIES, CLOSED, FORGOTTEN, NAMED, METADATA, ANSWERING)}
    assert api["condition"] == "counting" and "The ledgers are being counted" in page


def test_a_registration_keeps_what_is_amiss() -> None:
    lives = Registration(BK4, "h:1", problems={"certificate": "it ran out", "readable": "EIO"})
    assert registration.decode(lives.key, lives.encode()) == lives
