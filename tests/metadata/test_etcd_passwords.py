"""A store that is open goes on when its user's password is changed at a real etcd, whatever was changed first."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from metadata import opened_store
from metadata.errors import StoreRefused, StoreUnavailable
from metadata.etcd import authentication
from metadata.etcd import etcd_pb2 as pb
from metadata.secret_file import read_all_again
from metadata.store import MetadataStore
from tests.support.aio import until_true
from tests.support.etcd import EtcdServer, etcd_with_tokens
from tests.support.fake_etcd import FakeEtcd
from tests.support.secrets import password_file

USER, OLD, NEW = "root", "old", "new"

TOKEN_SECONDS = 3
WRITERS = 4


@pytest.fixture(params=["jwt", "simple"])
def etcd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EtcdServer]:
    with etcd_with_tokens(request.param, tmp_path, TOKEN_SECONDS) as server:
        server.enable_auth(USER, OLD)
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return password_file(tmp_path / "password", OLD)


@asynccontextmanager
async def opened(etcd: EtcdServer, secret: Path, seconds: float = 20.0) -> AsyncIterator[MetadataStore]:
    uri = f"etcd://{etcd.endpoint}/p?user={USER}&password_file={secret}&timeout={seconds:g}"
    async with opened_store(uri) as store:
        yield store


class Load:
    """Writers that create one key after the other; a failure of any of them is raised by `stop`."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._is_over = False
        self.done = 0
        self._tasks = [asyncio.ensure_future(self._write(n)) for n in range(WRITERS)]

    async def goes_on(self, calls: int = 20) -> None:
        """Until so many more are done, or one has failed."""
        wanted = self.done + calls

        async def reached() -> bool:
            return self.done >= wanted or any(one.done() for one in self._tasks)

        await until_true(reached)

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _write(self, writer: int) -> None:
        number = 0
        while not self._is_over:
            await self._store.create(f"load/{writer}/{number}", b"")
            number += 1
            self.done += 1


async def changed_at(etcd: EtcdServer) -> None:
    await asyncio.to_thread(etcd.change_password, USER, NEW, by=(USER, OLD))


def authentications(etcd: EtcdServer) -> int:
    """How often etcd was asked for a token."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{etcd.endpoint}/metrics", timeout=10) as page:
        found = re.findall(rb'grpc_server_handled_total\{.*grpc_method="Authenticate".*\} (\d+)', page.read())
    return sum(map(int, found))


async def test_no_call_fails_when_the_file_is_changed_before_etcd(etcd: EtcdServer, secret: Path) -> None:
    async with opened(etcd, secret) as store:
        load = Load(store)
        await load.goes_on()
        secret.write_text(NEW)
        read_all_again()  # or the token would hide what is in the file
        await load.goes_on()
        await changed_at(etcd)
        await load.goes_on()
        await load.stop()


async def test_no_call_fails_when_the_file_is_changed_soon_after_etcd(
    etcd: EtcdServer, secret: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def told() -> bool:
        return "refuses the password" in caplog.text

    async with opened(etcd, secret) as store:
        load = Load(store)
        await load.goes_on()
        await changed_at(etcd)
        await until_true(told)
        secret.write_text(NEW)
        await load.goes_on()
        await load.stop()
    lines = [one.message for one in caplog.records if "refuses the password" in one.message]
    assert len(lines) == 1 and f"for user {USER} into {secret}" in lines[0], lines


async def test_no_call_fails_when_users_are_changed_again_and_again(etcd: EtcdServer, secret: Path) -> None:
    """The revision of an older token is told as an unknown error by some releases of etcd, and nothing was changed."""
    async with opened(etcd, secret) as store:
        load = Load(store)
        for _ in range(5):
            await asyncio.to_thread(etcd.change_password, USER, OLD, by=(USER, OLD))
            await load.goes_on()
        await load.stop()


async def test_watches_and_leases_go_on_after_a_rotation_that_outlasts_their_calls(
    etcd: EtcdServer, secret: Path
) -> None:
    async with opened(etcd, secret, seconds=3) as store:
        lease = await store.grant_lease(60)
        version = await store.create("a", b"1", lease=lease)
        await changed_at(etcd)
        with pytest.raises(StoreUnavailable, match="write the password that etcd has") as failure:
            await store.replace("a", b"2", version)
        assert not isinstance(failure.value, StoreRefused), "a retry helps"
        assert "did not answer" not in str(failure.value)
        events = store.watch("a", after_revision=version)
        waiting = asyncio.ensure_future(anext(events))
        secret.write_text(NEW)
        await until_readable(store, "a")
        await store.keep_lease(lease)
        second = await store.replace("a", b"2", version)
        assert (await waiting).revision == second
        await events.aclose()


class Rotated(FakeEtcd):
    """Refuses the password from its second authentication on; after that it answers none."""

    async def call(self, method: str, request: bytes, context: Any) -> bytes:
        self.calls.append(method)
        asked = sum(one.endswith("/Authenticate") for one in self.calls)
        if not method.endswith("/Authenticate"):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
        if asked == 2:
            refusal = "etcdserver: authentication failed, invalid user ID or password"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal)
        if asked > 2:
            await asyncio.Event().wait()
        return pb.AuthenticateResponse(token="t").SerializeToString()


async def test_a_call_that_the_password_kept_from_etcd_says_so_though_its_last_try_had_no_time_left(
    secret: Path,
) -> None:
    async with (
        (etcd := Rotated([])).serving() as endpoint,
        opened_store(f"etcd://{endpoint}/p?user={USER}&password_file={secret}&timeout=3") as store,
    ):
        with pytest.raises(StoreUnavailable, match="write the password that etcd has"):
            await store.get("a")
        assert etcd.calls.count("/etcdserverpb.Auth/Authenticate") == 3


async def until_readable(store: MetadataStore, key: str) -> None:
    async def is_readable() -> bool:
        try:
            return await store.get(key) is not None
        except StoreUnavailable:  # until the file is read again
            return False

    await until_true(is_readable)


async def test_a_wrong_password_is_sent_once_in_a_pause_however_many_calls_wait(
    etcd: EtcdServer, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "REFUSED_PAUSE_SECONDS", 3600.0)
    before = authentications(etcd)
    secret.write_text("wrong")
    async with opened(etcd, secret) as store:
        for _ in range(3):
            answers = await asyncio.gather(*(store.get("a") for _ in range(50)), return_exceptions=True)
            assert all(isinstance(one, StoreRefused) for one in answers), answers
        assert await asyncio.to_thread(authentications, etcd) == before + 1
        secret.write_text(OLD)
        read_all_again()  # does not wait for the pause
        assert await store.get("a") is None


async def test_a_file_that_is_half_written_keeps_the_password(
    etcd: EtcdServer, secret: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(etcd, secret) as store:
        await store.create("a", b"")
        for content in ("", "\n"):
            secret.write_text(content)
            read_all_again()
            assert await store.get("a") is not None
        secret.unlink()
        read_all_again()
        assert await store.get("a") is not None
    assert "keeping the previous one" in caplog.text
    assert OLD not in [word for one in caplog.records for word in one.getMessage().split()]
