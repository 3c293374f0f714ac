"""Who may make and delete ledgers, and order bookies about: every role, on every kind of ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bookie.wire.trust.roles import Role
from ledgers import LedgerError, NewLedger, NotAllowed, Unauthorized
from ledgers.aio import LedgerClient
from metadata.records.ledger_record import JOURNAL, OWNER
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.authority import TestAuthority
from tests.support.command_line import bookledger, succeeds

PASSWORD = b"a secret"

LEDGERS: Mapping[str, NewLedger] = {
    "anybody's": NewLedger(),
    "of team-a": NewLedger(custom_metadata={OWNER: b"team-a"}),
    "a journal's": NewLedger(custom_metadata={JOURNAL: b"ns1"}),
    "with a password": NewLedger(password=PASSWORD),
}

MAY_DELETE: Mapping[tuple[Role, str], frozenset[str]] = {
    (Role.ADMIN, ""): frozenset(LEDGERS),
    (Role.JOURNAL, ""): frozenset({"a journal's", "with a password"}),
    (Role.CLIENT, ""): frozenset({"with a password"}),
    (Role.CLIENT, "team-a"): frozenset({"of team-a"}),
    (Role.CLIENT, "team-b"): frozenset(),
    (Role.READER, ""): frozenset(),
    (Role.READER, "team-a"): frozenset(),
    (Role.BOOKIE, ""): frozenset({"a journal's", "with a password"}),  # it may be a JournalNode, too
    (Role.AUDITOR, ""): frozenset(),
    (Role.CONSOLE, ""): frozenset(),
}
"""Who knows the password proves by it that the ledger is its own; those roles that may not write may do nothing."""

MAY_CREATE = {Role.ADMIN, Role.JOURNAL, Role.CLIENT, Role.BOOKIE}


def test_every_role_is_here() -> None:
    assert {role for role, _ in MAY_DELETE} == set(Role)


@pytest.mark.parametrize("force", [False, True], ids=["recovered first", "by force"])
@pytest.mark.parametrize(("role", "owner"), MAY_DELETE, ids=str)
async def test_a_role_deletes_what_it_may_and_nothing_else(
    role: Role, owner: str, force: bool, of_role: Callable[..., LedgerClient]
) -> None:
    async with of_role(Role.ADMIN) as admin, of_role(role, owner) as client:
        deleted = set()
        for kind, new in LEDGERS.items():
            ledger_id = await admin.reserve_ledger(new)
            try:
                await client.delete_ledger(ledger_id, password=new.password, force=force)
                deleted.add(kind)
            except Unauthorized:
                await client.describe_ledger(ledger_id)
        assert deleted == MAY_DELETE[role, owner]
        if role in MAY_CREATE:
            assert await client.reserve_ledger(NewLedger())
        else:
            with pytest.raises(NotAllowed, match=f"{role}:someone.* may not append entries"):
                await client.reserve_ledger(NewLedger())


@pytest.mark.parametrize("role", Role)
async def test_only_an_admin_deletes_a_ledger_whose_password_is_lost(
    role: Role, of_role: Callable[..., LedgerClient]
) -> None:
    async with of_role(Role.ADMIN) as admin, of_role(role) as client:
        ledger_id = await admin.reserve_ledger(NewLedger(password=PASSWORD))
        for force in (False, True):
            with pytest.raises(Unauthorized, match="it has a password, and none was given"):
                await admin.delete_ledger(ledger_id, force=force)
        if role is Role.ADMIN:
            await client.delete_ledger(ledger_id, password_is_lost=True)
        else:
            with pytest.raises(Unauthorized, match="that takes a certificate of role admin"):
                await client.delete_ledger(ledger_id, password_is_lost=True)


async def test_without_certificates_a_lost_password_is_said_and_no_force_gets_around_it(
    client: LedgerClient,
) -> None:
    ledger_id = await client.reserve_ledger(NewLedger(password=PASSWORD))
    with pytest.raises(LedgerError, match="it has a password, and none was given"):
        await client.delete_ledger(ledger_id, force=True)
    await client.delete_ledger(ledger_id, password_is_lost=True)


ORDERS = (
    ("bookie", "drain", "b1", "--cancel"),
    ("cluster", "decommission", "b1", "--cancel"),
    ("cluster", "maintenance", "b1"),
    ("cluster", "maintenance", "b1", "--end"),
    ("cluster", "rebalance"),
    ("cluster", "rebalance", "--cancel"),
    ("cluster", "decommission", "b2", "--yes"),
)


def test_whoever_has_a_certificate_orders_bookies_about_with_an_admins_only(tmp_path: Path) -> None:
    authority, uri = TestAuthority(tmp_path), uri_of(tmp_path / "metadata.db")
    audit = tmp_path / "audit.log"
    for name in ("b1", "b2"):
        succeeds("bookie", "format", f"--data={tmp_path}/{name}", f"--id={name}", f"--metadata={uri}")
    for role in Role:
        mine = {"BOOKLEDGER_CERTS": str(authority.of(role)), "BOOKLEDGER_AUDIT_LOG": str(audit)}
        for order in ORDERS if role in (Role.ADMIN, Role.CLIENT) else ORDERS[:1]:
            done = bookledger(*order, f"--metadata={uri}", env={**os.environ, **mine})
            assert done.returncode == (0 if role is Role.ADMIN else 1), (role, order, done)
            told = json.loads(audit.read_text().splitlines()[-1])
            assert told["who"] == f"{role}:someone"
            if role is Role.ADMIN:
                assert told["what"] == "order" and told["outcome"] == "done", (order, told)
            else:
                assert b"may not run maintenance: that takes a certificate of role admin" in done.stderr
                assert told["what"] == "refused access", told
