"""Certificates that are for one owner's ledgers: every call that names a ledger, as it is served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bookie.serving.lookups import owners, verifiers
from bookie.serving.lookups.owners import Owners
from bookie.wire import AppendRequest, codec
from bookie.wire.data.framing import FrameKind
from bookie.wire.messages import Status
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.identity import CONFINED, Identity, NoIdentity, parse_identity
from bookie.wire.trust.roles import MAY, Role
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import Client, served
from tests.bookie.serving.test_roles import asked, calls_of
from tests.bookie.serving.test_verifiers import CountedLedgers
from tests.support.authority import TestAuthority
from tests.support.faulty_store import FaultyStore
from tests.support.raw_data import after_handshake

LEDGERS = {20: b"team-a", 21: b"team-a/billing", 22: b"team-b", 23: b"team-ab", 24: b"", 25: b"Team-a"}
ITS = {20, 21}


@asynccontextmanager
async def owned_bookie(tmp_path: Path) -> AsyncIterator[tuple[Client, TestAuthority]]:
    authority, store = TestAuthority(tmp_path), MemoryStore()
    for ledger_id, owner in LEDGERS.items():
        fragment = Fragment(0, (BookieRef("b1", "i1"),))
        custom = {"owner": owner} if owner else {}
        record = LedgerRecord(ledger_id, Shape(1, 1, 1), (fragment,), custom_metadata=custom)
        await LedgerStore(store).create(record)
    async with served(tmp_path, store, certificates=authority.bookie("b1")) as client:
        yield client, authority


@pytest.mark.parametrize("role", sorted(CONFINED))
@pytest.mark.parametrize("ledger_id", [*LEDGERS, 99])
async def test_every_call_that_names_a_ledger_is_refused_for_those_of_others(
    tmp_path: Path, role: Role, ledger_id: int
) -> None:
    async with owned_bookie(tmp_path) as (client, authority):
        tls = Certificates(authority.of(role, owner="team-a")).client
        for name, (kind, right, body) in calls_of(client.incarnation, ledger_id).items():
            if right not in MAY[role] or kind is FrameKind.INFO:
                continue
            async with after_handshake(client.bookie.address, tls) as raw:
                for _ in range(2):  # looked up, and then known
                    status, why = await asked(raw, kind, body)
                    assert (status is Status.UNAUTHORIZED) is (ledger_id not in ITS), (name, status)
                    assert (status is Status.UNAUTHORIZED) is ("is 'team-a'" in why), (name, why)


async def test_of_frames_in_one_message_those_for_others_ledgers_are_refused(tmp_path: Path) -> None:
    async with owned_bookie(tmp_path) as (client, authority):
        tls = Certificates(authority.of(Role.CLIENT, owner="team-a")).client
        frames = tuple(frame_of(ledger_id, [0]) for ledger_id in (20, 22, 21))
        async with after_handshake(client.bookie.address, tls) as raw:
            for _ in range(2):
                request = AppendRequest(client.incarnation, 0, frames)
                raw.send(FrameKind.APPEND, 0, codec.encode(request))
                found = await raw.statuses(len(frames))
                assert found == {0: Status.OK, 1: Status.UNAUTHORIZED, 2: Status.OK}


async def test_who_is_confined_to_nothing_may_use_every_ledger(tmp_path: Path) -> None:
    async with owned_bookie(tmp_path) as (client, authority):
        tls = Certificates(authority.of(Role.CLIENT)).client
        async with after_handshake(client.bookie.address, tls) as raw:
            for ledger_id in LEDGERS:
                kind, _, body = calls_of(client.incarnation, ledger_id)["append"]
                assert await asked(raw, kind, body) == (Status.OK, "")


async def test_while_the_metadata_is_away_nobody_new_is_believed() -> None:
    store = FaultyStore()
    store.fail(TimeoutError(), calls=["get"])
    found = await Owners(LedgerStore(store)).refused([20], "team-a")
    assert found[20][0] is Status.UNKNOWN
    assert "cannot look up its owner" in found[20][1]


async def test_what_is_remembered_and_looked_up_at_a_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "OWNERS_KEPT_MAX", 4)
    ledgers = CountedLedgers(MemoryStore())
    fragment = Fragment(0, (BookieRef("b1", "i1"),))
    for n in range(100):
        record = LedgerRecord(n, Shape(1, 1, 1), (fragment,), custom_metadata={"owner": b"team-a"})
        await ledgers.create(record)
    looking = Owners(ledgers)
    assert await looking.refused(range(100), "team-a") == {}
    assert len(looking._known) <= 4
    assert ledgers.most == verifiers.LOOKUPS_AT_ONCE_MAX


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("client:app?owner=team-a", Identity(Role.CLIENT, "app", "team-a")),
        ("reader:a@b.example?owner=x/y", Identity(Role.READER, "a@b.example", "x/y")),
        ("client:app", Identity(Role.CLIENT, "app")),
    ],
)
def test_an_identity_is_read_as_it_is_written(text: str, identity: Identity) -> None:
    assert parse_identity(text) == identity
    assert str(identity) == text
    assert identity.urn == f"urn:bookledger:{text}"


@pytest.mark.parametrize(
    "text",
    [
        "client:app?owner=",
        "bookie:b1?owner=a",
        "admin:x?owner=a",
        "client:?owner=a",
        "client:a?owners=b",
        "client:a?Owner=b",
        "client:a&owner=b",
        "client:a?b",
        "client:a?owner=b?c",
    ],
)
def test_what_names_no_owner_or_cannot_be_confined_is_nobody(text: str) -> None:
    with pytest.raises(NoIdentity):
        parse_identity(text)
