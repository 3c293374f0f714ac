"""Every fact of a bookie, by situation, through every face of its daemon: readiness, gRPC, metrics, registration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from bookie.errors import LogFailed
from bookie.log import segment_files
from bookie.serving.bookie_findings import NOT_SCRUBBED
from bookie.wire.trust.certificates import CERTIFICATE as CERTIFICATE_FILE
from bookie.wire.trust.certificates import KEY
from bookie.wire.trust.roles import Role
from bookledger.admin.bookies import Bookies
from bookledger.admin.http.server import serving_http
from metadata import keys
from metadata.counting import facts
from metadata.counting.facts import OF_A_BOOKIE, Fact, Verdict
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from metadata.memory_store import MemoryStore
from metadata.records import registration
from metadata.records.directory_generations import last_registrations
from metadata.store import StoreHealth
from tests.support.aio import until_true
from tests.support.authority import TestAuthority
from tests.support.present import there

from .served import Client, served
from .test_port import NOT_SERVING, SERVING, health

FULL = "etcd is out of space, and refuses changes: make room"


class StoreThatTells(MemoryStore):
    """Says of itself what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.told = StoreHealth("memory", "", 0)

    async def health(self) -> StoreHealth:
        return self.told


@dataclass(frozen=True)
class World:
    client: Client
    store: StoreThatTells
    path: Path
    authority: TestAuthority
    monkeypatch: pytest.MonkeyPatch

    def verdict(self, fact: Fact) -> Verdict:
        (found,) = [one for one in self.client.bookie.health.findings() if one.fact is fact]
        return found.verdict


async def log_failed(world: World) -> None:
    world.client.bookie.bookie.fail(OSError("I/O error"))


async def lost(world: World) -> None:
    world.client.bookie.registrar.held.stands = None


async def expired(world: World) -> None:
    """As where nobody renews it."""
    authority = world.authority
    directory, old = authority.bookie("b1"), authority.expired(Role.BOOKIE, world.monkeypatch)
    for name in (CERTIFICATE_FILE, KEY):
        (old / name).rename(directory / name)


async def in_an_hour(world: World) -> None:
    world.authority.authority.renew(world.authority.bookie("b1"), 1)


async def in_nine_days(world: World) -> None:
    world.authority.authority.renew(world.authority.bookie("b1"), 10)


async def full_store(world: World) -> None:
    world.store.told = StoreHealth("etcd", "3.6.16", 1, refuses=FULL)
    await world.client.bookie.health._store.health()


async def drained(world: World) -> None:
    await operator_requests.give(world.store, Order("b1", OrderKind.DRAIN, 1))
    await until_true(lambda: is_found(world, facts.WRITABLE, Verdict.AMISS))


async def unreadable(world: World) -> None:
    await world.client.bookie.upkeep.scrubber.scrub_once()
    assert world.verdict(facts.READABLE) is Verdict.WELL
    (path,) = (world.path / "b1").rglob(segment_files.name_of(0))
    aside = path.rename(world.path / "aside")
    path.symlink_to(path)  # whose opening fails for root, too
    await world.client.bookie.upkeep.scrubber.scrub_once()
    aside.rename(path)  # so that the bookie can go on until it ends


Situation = Callable[[World], Awaitable[None]]
SITUATIONS: list[tuple[Fact, Situation, str]] = [
    (facts.LOG, log_failed, "the log could not be written or synced: I/O error"),
    (facts.REGISTERED, lost, "it is not registered"),
    (facts.CERTIFICATE, expired, "cert.pem ran out on "),
    (facts.CERTIFICATE_TWO_DAYS, in_an_hour, "cert.pem ends in 23 hours, on "),
    (facts.CERTIFICATE_TWO_WEEKS, in_nine_days, "cert.pem ends in 9 days, on "),
    (facts.METADATA, full_store, FULL),
    (facts.WRITABLE, drained, "read-only: the bookie is being drained"),
    (facts.READABLE, unreadable, f"segments of its log could not be read: {segment_files.name_of(0)}: "),
]


def test_every_fact_of_a_bookie_has_a_situation() -> None:
    assert [fact for fact, _, _ in SITUATIONS] == list(OF_A_BOOKIE)


@pytest.mark.parametrize(("fact", "situation", "why"), SITUATIONS, ids=[one[0].name for one in SITUATIONS])
async def test_what_is_amiss_with_a_bookie_is_told_by_every_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fact: Fact, situation: Situation, why: str
) -> None:
    for module in ("bookie_findings", "operator_request_polling"):
        monkeypatch.setattr(f"bookie.serving.{module}.LOOK_SECONDS", 0.05)
    authority, store = TestAuthority(tmp_path), StoreThatTells()
    certificates = authority.bookie("b1") if fact in facts.CERTIFICATE_DAYS else None
    ends = pytest.raises(LogFailed) if fact is facts.LOG else nullcontext()
    with ends:
        async with served(tmp_path, store, certificates=certificates) as client:
            world, bookies = World(client, store, tmp_path, authority, monkeypatch), Bookies(1)
            bookies.has_started(client.bookie)
            async with (
                serving_http("127.0.0.1", 0, bookies.http_content()) as address,
                aiohttp.ClientSession(f"http://{address}") as session,
            ):
                assert await asked(session, "/readyz") == (200, "ok\n")
                if fact is not facts.READABLE:
                    await until_true(lambda: is_found(world, fact, Verdict.WELL))
                await situation(world)
                assert world.verdict(fact) is Verdict.AMISS
                code, told = await asked(session, "/readyz")
                if fact.not_ready:
                    assert code == 503 and why in told and "b1: " in told
                else:
                    assert code == 200
                if certificates is None:
                    assert await health(client) == (NOT_SERVING if fact.not_ready else SERVING)
                _, page = await asked(session, "/metrics")
                sample = f'bookledger_health_fact{{bookie="b1",fact="{fact.name}",verdict="amiss"}} 1.0'
                assert sample in page
                if fact in facts.PUBLISHED:
                    await until_true(lambda: is_published(store, fact, why))


async def test_a_bookie_that_was_not_scrubbed_yet_does_not_know_whether_its_log_can_be_read(
    client: Client,
) -> None:
    (found,) = [one for one in client.bookie.health.findings() if one.fact is facts.READABLE]
    assert (found.verdict, found.why) == (Verdict.UNKNOWN, NOT_SCRUBBED)
    assert await health(client) == SERVING


async def test_what_a_bookie_was_registered_as_is_known_when_it_is_absent(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store, fault_domain="/rack7") as client:
        address = client.bookie.address
    assert await store.get(keys.bookie("b1")) is None
    (last,) = (await last_registrations(store)).values()
    assert (last.address, last.fault_domain, last.session, last.reading_key) == (address, "/rack7", b"", b"")


async def is_found(world: World, fact: Fact, verdict: Verdict) -> bool:
    return world.verdict(fact) is verdict


async def is_published(store: MemoryStore, fact: Fact, why: str) -> bool:
    found = there(await store.get(keys.bookie("b1")))
    return why in registration.decode(found.key, found.value).problems.get(fact.name, "")


async def asked(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as answer:
        return answer.status, await answer.text()
