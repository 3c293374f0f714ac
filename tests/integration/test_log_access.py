"""Who may do what to a log: roles, owners, passwords; and what the audit log says of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bookie.wire.trust.roles import Role
from ledgers import (
    EntryUnreadable,
    LedgerError,
    LedgerInLog,
    LogFenced,
    LogHeld,
    NoSuchLedger,
    NoSuchLog,
    NotAllowed,
    Unauthorized,
)
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies

PASSWORD = b"a secret"


async def appended(log: Log, *payloads: bytes) -> None:
    async with await log.writer() as writer:
        await writer.append_batch(payloads)


async def segments_of(log: Log) -> list[int]:
    return [segment.ledger_id async for segment in log.segments()]


@pytest.mark.parametrize("force", [False, True])
async def test_a_segment_is_not_deleted_as_a_ledger(client: LedgerClient, log: Log, force: bool) -> None:
    await appended(log, b"a")
    await appended(log, b"b")
    first, second = await segments_of(log)
    for ledger_id in (first, second):
        with pytest.raises(LedgerInLog, match=rf"ledger {ledger_id} is a segment of log 'orders'"):
            await client.delete_ledger(ledger_id, force=force)
    assert [record.payload async for record in log.read()] == [b"a", b"b"]
    await log.truncate(1)
    with pytest.raises(LedgerInLog):
        await client.delete_ledger(second, force=force)

    async def is_gone() -> bool:
        try:
            await client.describe_ledger(first)
        except NoSuchLedger:
            return True
        return False

    await until_true(is_gone)


async def test_the_segment_that_a_writer_is_at_is_not_deleted_under_it(
    client: LedgerClient, log: Log
) -> None:
    writer = await log.writer()
    await writer.append(b"a")
    (ledger_id,) = await segments_of(log)
    with pytest.raises(LedgerInLog):
        await client.delete_ledger(ledger_id)
    assert await writer.append(b"b") == 1
    await writer.close()


async def test_a_log_is_given_up_only_with_its_password(client: LedgerClient) -> None:
    right = await client.create_log("secret", password=PASSWORD)
    writer = await right.writer()
    await writer.append_batch([b"a", b"b"])
    for password in (b"", b"wrong"):
        log = await client.log("secret", password=password)
        for act in (
            log.truncate(1),
            client.delete_log("secret", password=password),
            log.writer(),
            log.end(),
        ):
            with pytest.raises(Unauthorized):
                await act
    assert await writer.append(b"c") == 2, "nobody has disturbed the writer"
    await writer.close()
    assert [record.payload async for record in right.read()] == [b"a", b"b", b"c"]
    assert (await right.refresh()).epoch == 1
    await right.truncate(1)
    await client.delete_log("secret", password=PASSWORD)


async def test_a_legal_hold_keeps_every_ledger_also_when_who_holds_the_log_is_gone(
    cluster: InProcessCluster, client: LedgerClient, log: Log
) -> None:
    await appended(log, b"a")
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        await (await other.log("orders")).set_legal_hold(True)
    for act in (log.truncate(1), client.delete_log("orders")):
        with pytest.raises(LogHeld):
            await act
    with pytest.raises(LedgerInLog):
        await client.delete_ledger((await segments_of(log))[0])
    await log.set_legal_hold(False)
    await log.truncate(1)
    await client.delete_log("orders")


MAY_WRITE = {Role.ADMIN, Role.JOURNAL, Role.CLIENT, Role.BOOKIE}
MAY_READ = MAY_WRITE | {Role.READER}


@pytest.mark.parametrize("role", Role)
async def test_a_role_does_to_a_log_what_it_may_do_to_ledgers(
    role: Role, of_role: Callable[..., LedgerClient]
) -> None:
    async with of_role(Role.ADMIN) as admin:
        await appended(await admin.log("orders", create=True), b"a", b"b")
        async with of_role(role) as client:
            log = await client.log("orders")
            done = {
                "write": lambda: appended(log, b"c"),
                "create": lambda: client.create_log("another"),
                "rename": lambda: client.rename_log("orders", "orders"),
                "hold": lambda: log.set_legal_hold(False),
                "truncate": lambda: log.truncate(1),
                "delete": lambda: client.delete_log("orders"),
                "read": lambda: anext(log.read(1)),
            }
            if role is Role.ADMIN:
                del done["delete"]
            may = {name for name, act in done.items() if await is_allowed(act)}
        writing = {"write", "create", "rename", "hold"}
        assert may == {
            *(["read"] if role in MAY_READ else []),
            *(writing if role in MAY_WRITE else []),
            *(["truncate"] if role is Role.ADMIN else []),
        }
        assert (await (await admin.log("orders")).refresh()).epoch == (2 if role in MAY_WRITE else 1)


async def is_allowed(act: Callable[[], Awaitable[object]]) -> bool:
    try:
        await act()
    except (NotAllowed, Unauthorized, EntryUnreadable):  # a bookie's refusal is an answer among others
        return False
    return True


async def test_a_log_is_of_the_owner_who_made_it_whoever_writes_to_it(
    of_role: Callable[..., LedgerClient],
) -> None:
    async with (
        of_role(Role.ADMIN) as admin,
        of_role(Role.CLIENT, "team-a") as ours,
        of_role(Role.CLIENT, "team-b") as others,
    ):
        log = await ours.log("orders", create=True)
        await appended(log, b"by us")
        await appended(await admin.log("orders"), b"by an admin")
        assert [record.payload async for record in log.read()] == [b"by us", b"by an admin"]
        assert [name async for name, _ in others.list_logs()] == []
        for act in (
            others.log("orders"),
            others.delete_log("orders"),
            others.rename_log("orders", "mine"),
        ):
            with pytest.raises(NotAllowed, match="does not belong to 'team-b'"):
                await act
        await log.truncate(1)
        await ours.delete_log("orders")
        with pytest.raises(NoSuchLog):
            await admin.log("orders")


async def test_what_was_done_to_a_log_is_in_the_audit_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="bookledger.audit"):
        async with on_bookies(tmp_path, 3) as (_, client):
            log = await client.create_log("orders", password=PASSWORD)
            old = await log.writer()
            await old.append(b"a")
            await appended(log, b"b")
            with pytest.raises(LogFenced):
                await old.append(b"late")
            await log.truncate(1)
            await client.rename_log("orders", "renamed")
            with pytest.raises(LedgerError):
                await client.delete_log("renamed", password=b"wrong")
            await client.delete_log("renamed", password=PASSWORD)
    every = [json.loads(message) for message in caplog.messages if '"log"' in message]
    of_ledgers = [
        one for one in every if "ledger_id" in one
    ]  # in the background, before the log is renamed or after
    assert {one["what"] for one in of_ledgers} == {"delete"}
    assert {one["log"] for one in of_ledgers} <= {"orders", "renamed"}
    assert len({one["ledger_id"] for one in of_ledgers}) == len(of_ledgers) == 2, "of each epoch"
    told = [one for one in every if "ledger_id" not in one]
    assert [(one["what"], one["log"]) for one in told] == [
        ("create", "orders"),
        ("epoch", "orders"),
        ("epoch", "orders"),
        ("truncate", "orders"),
        ("rename", "orders"),
        ("refused access", "renamed"),
        ("delete", "renamed"),
    ]
    assert (told[1]["epoch"], told[2]["epoch"], told[3]["position"], told[4]["to"]) == (1, 2, 1, "renamed")
    assert not any(PASSWORD.decode() in message for message in caplog.messages)
