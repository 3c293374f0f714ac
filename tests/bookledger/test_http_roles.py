"""Who may ask for what over HTTP: every path, with every role and every kind of wrong credential."""

from __future__ import annotations

import json
import logging
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import MAY, ROUTES, Role
from bookledger.admin.bookies import Bookies
from bookledger.admin.http.server import routes_of, serving_http
from bookledger.admin.http_content import HttpContent
from bookledger.console.console import Console
from ledgers import ClientConfig
from ledgers.config import PLAIN_TEXT
from metadata import open_store
from metadata.audit import AUDIT
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from tests.support.aio import run
from tests.support.authority import TestAuthority, wrong_credentials
from tests.support.made_clusters import a_cluster_in_memory


@asynccontextmanager
async def answering(authority: TestAuthority) -> AsyncIterator[str]:
    certificates = Certificates(authority.bookie("b1"))
    uri = await a_cluster_in_memory(ledgers=1)
    logs = LogStore(await open_store(uri))
    await logs.create(LogRecord(bytes(16), "orders"))
    await logs.give_name("orders", bytes(16))
    pages = console_of(uri)
    async with serving_http("127.0.0.1", 0, subject_with(pages), certificates) as address, pages.open():
        yield address


def console_of(uri: str) -> Console:
    return Console(uri, shows_entries=True, config=ClientConfig(certificates=PLAIN_TEXT))


def subject_with(pages: Console) -> HttpContent:
    content = Bookies(0).http_content()
    content.pages = pages.routes()
    return content


def filled(path: str) -> str:
    """A path of the table, with something that is there in place of its parameters."""
    return path.format(ledger_id=1, name="console.css", bookie_id="b1", log="orders")


async def get(address: str, path: str, tls: ssl.SSLContext | None) -> tuple[int, str]:
    scheme = "http" if tls is None else "https"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.get(f"{scheme}://{address}{path}", ssl=tls or False) as answer,
    ):
        if path == "/events" and answer.status == 200:  # it never ends
            return answer.status, (await answer.content.readany()).decode()
        return answer.status, await answer.text()


def test_every_path_has_a_rule() -> None:
    routes = routes_of(subject_with(console_of("memory://nobody")))
    assert {route.path for route in routes} == ROUTES.keys()


def test_no_path_changes_anything() -> None:
    assert {route.method for route in routes_of(subject_with(console_of("memory://nobody")))} == {"GET"}


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_may_ask_for_what_the_table_says(
    tmp_path: Path, role: Role, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metadata.audit.REFUSALS_A_SECOND_MAX", 1000)  # each is looked for below
    caplog.set_level(logging.INFO, logger=AUDIT.name)
    authority = TestAuthority(tmp_path)
    tls = Certificates(authority.of(role)).client
    async with answering(authority) as address:
        for path, right in ROUTES.items():
            status, text = await get(address, filled(path), tls)
            if right in MAY[role]:
                assert status == 200, text
                continue
            assert status == 403
            why = json.loads(text)["detail"]
            assert why.startswith(f"{role.value}:someone may not {right.value}: that takes")
            told = json.loads(caplog.records[-1].message)
            assert (told["who"], told["from"]) == (f"{role.value}:someone", "127.0.0.1")
        assert (await get(address, "/metrics/../x", tls))[0] == 404


def test_entries_that_are_shown_are_in_the_audit_log_with_who_saw_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=AUDIT.name)

    async def main() -> None:
        authority = TestAuthority(tmp_path)
        tls = Certificates(authority.of(Role.ADMIN)).client
        async with answering(authority) as address:
            assert (await get(address, "/ledgers/1", tls))[0] == 200
            assert not caplog.records, "what is no user's data is not told"
            assert (await get(address, "/ledgers/1/entries?first=7", tls))[0] == 200

    run(main())
    (told,) = (json.loads(record.message) for record in caplog.records)
    assert (told["what"], told["who"], told["from"]) == ("show entries", "admin:someone", "127.0.0.1")
    assert (told["ledger_id"], told["first_entry"]) == (1, 7)
    assert told["outcome"] != "done", "its bookies are not there"


async def test_with_wrong_credentials_nobody_gets_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = TestAuthority(tmp_path)
    async with answering(authority) as address:
        for wrong, tls in wrong_credentials(tmp_path, authority, monkeypatch).items():
            for path in ROUTES:
                with pytest.raises(aiohttp.ClientError):
                    pytest.fail(f"{wrong}: {await get(address, filled(path), tls)}")
        assert (await get(address, "/metrics", Certificates(authority.of(Role.ADMIN)).client))[0] == 200


async def test_a_certificate_that_names_nobody_is_told_so(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    async with answering(authority) as address:
        status, text = await get(address, "/healthz", Certificates(authority.nameless()).client)
    assert status == 403
    assert "names" in text


async def test_a_renewed_certificate_is_shown_to_whoever_comes_next(tmp_path: Path) -> None:
    old, new = TestAuthority(tmp_path, "old"), TestAuthority(tmp_path, "new")
    async with answering(old) as address:
        for file in new.bookie("b1").iterdir():
            shutil.copy(file, old.bookie("b1") / file.name)
        assert (await get(address, "/metrics", Certificates(new.of(Role.ADMIN)).client))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await get(address, "/metrics", Certificates(old.of(Role.ADMIN)).client)
