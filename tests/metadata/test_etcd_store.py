"""The etcd store keeps the contract on a real etcd, and through its failures."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from metadata.errors import OutcomeUnknown, StoreUnavailable, WatchCompacted
from metadata.etcd import channel as etcd_channel
from metadata.etcd import config as etcd_config
from metadata.etcd.store import EtcdConfig, EtcdStore
from metadata.store import MetadataStore, Versioned
from tests.contracts.metadata_store import MetadataStoreContract, keys_in_pages, watching
from tests.support.aio import run
from tests.support.certificates import make_certificates
from tests.support.etcd import EtcdServer, free_port
from tests.support.present import there
from tests.support.proxy import Proxy
from tests.support.secrets import password_file

IDLE_SECONDS = 50.0
"""Five of the client's pings."""


def config_for(*endpoints: str, timeout: float = 5.0) -> EtcdConfig:
    return EtcdConfig(endpoints=endpoints, prefix=f"test/{uuid.uuid4().hex}", timeout=timeout)


@asynccontextmanager
async def opened(config: EtcdConfig) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(config)
    try:
        yield store
    finally:
        await store.close()


class TestEtcdStore(MetadataStoreContract):
    ttl_seconds = 2.0  # the shortest that etcd grants with its default election timeout

    @pytest.fixture(autouse=True)
    def _server(self, etcd: EtcdServer) -> None:
        self.server = etcd
        self.config = config_for(etcd.endpoint)

    async def open_store(self) -> MetadataStore:
        return EtcdStore(self.config)

    async def forget_history(self, store: MetadataStore, key: str) -> None:
        self.server.compact((await store.list_page("")).revision)


# Endpoints


async def test_a_dead_first_endpoint_is_passed_over_by_reads_and_writes(etcd: EtcdServer) -> None:
    config = config_for(f"127.0.0.1:{free_port()}", etcd.endpoint)
    async with opened(config) as store:
        version = await store.create("a", b"one")
    async with opened(config) as store:
        assert await store.get("a") == Versioned("a", b"one", version)
    async with opened(config) as store, watching(store, "a", version - 1) as events:
        assert (await anext(events)).revision == version


async def test_a_first_endpoint_that_accepts_and_never_answers_is_passed_over(etcd: EtcdServer) -> None:
    async with Proxy(etcd.port) as silent:
        silent.drop_replies()
        async with opened(config_for(f"127.0.0.1:{silent.port}", etcd.endpoint, timeout=2.0)) as store:
            version = await store.create("a", b"one")
            assert await store.get("a") == Versioned("a", b"one", version)


async def test_without_any_etcd_calls_fail_within_the_timeout_and_name_the_endpoint() -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    async with opened(config_for(endpoint, timeout=0.5)) as store:
        started = asyncio.get_running_loop().time()
        for call in (store.get("a"), store.create("a", b"")):
            with pytest.raises(StoreUnavailable, match=endpoint) as failure:
                await call
            assert not isinstance(failure.value, OutcomeUnknown)
        assert asyncio.get_running_loop().time() - started < 3


def test_closing_a_store_ends_a_call_that_is_still_connecting(etcd: EtcdServer) -> None:
    async def scenario() -> None:
        async with Proxy(etcd.port) as silent:
            silent.drop_replies()
            async with opened(config_for(f"127.0.0.1:{silent.port}", timeout=20)) as store:
                reading = asyncio.ensure_future(store.get("a"))
                await asyncio.wait([reading], timeout=0.2)
                await store.close()
                with pytest.raises(StoreUnavailable):
                    await reading

    run(scenario(), timeout_seconds=10)


# Lost answers


@pytest.mark.parametrize("second_endpoint", [False, True])
async def test_a_write_whose_answer_is_lost_has_an_unknown_outcome_and_is_not_repeated(
    etcd: EtcdServer, second_endpoint: bool
) -> None:
    async with Proxy(etcd.port) as proxy:
        others = (etcd.endpoint,) if second_endpoint else ()
        config = config_for(f"127.0.0.1:{proxy.port}", *others, timeout=1.0)
        async with opened(config) as store, opened(replace(config, endpoints=(etcd.endpoint,))) as direct:
            before = await store.create("before", b"")
            proxy.drop_replies()
            with pytest.raises(OutcomeUnknown):
                await store.create("a", b"mine")
            found = there(await direct.get("a"))
            # Leases of others that end at this etcd count as writes, too.
            assert found == Versioned("a", b"mine", max(found.version, before + 1))
            proxy.forward()
            assert await store.get("a") == found


async def test_a_read_whose_answer_is_lost_is_read_again_elsewhere(etcd: EtcdServer) -> None:
    async with Proxy(etcd.port) as proxy:
        config = config_for(f"127.0.0.1:{proxy.port}", etcd.endpoint, timeout=2.0)
        async with opened(config) as store:
            version = await store.create("a", b"one")
            lease = await store.grant_lease(60)
            proxy.drop_replies()
            assert await store.get("a") == Versioned("a", b"one", version)
            await store.keep_lease(lease)


async def test_a_write_that_never_left_goes_to_the_other_endpoint(etcd: EtcdServer) -> None:
    async with Proxy(etcd.port) as proxy:
        proxy.cut()
        async with opened(config_for(f"127.0.0.1:{proxy.port}", etcd.endpoint, timeout=2.0)) as store:
            await store.create("a", b"one")
            assert await store.get("a") is not None


# etcd goes and comes back


async def test_a_watch_from_a_compacted_deletion_says_so_instead_of_missing_it(own_etcd: EtcdServer) -> None:
    async with opened(config_for(own_etcd.endpoint)) as store:
        version = await store.create("a", b"0")
        await store.delete("a", version)
        own_etcd.compact(version + 1)
        with pytest.raises(WatchCompacted):
            async with watching(store, "a", version) as events:
                await anext(events)
        last = await store.create("a", b"1")
        async with watching(store, "a", version + 1) as events:
            assert (await anext(events)).revision == last


# Users, TLS, sizes


async def test_a_token_that_etcd_forgot_is_renewed_for_calls_and_watches(
    own_etcd: EtcdServer, tmp_path: Path
) -> None:
    own_etcd.enable_auth("root", "secret")
    config = replace(
        config_for(own_etcd.endpoint),
        user="root",
        password_file=str(password_file(tmp_path / "p", "secret")),
    )
    async with opened(config) as store:
        version = await store.create("a", b"one")
        async with watching(store, "a", version) as events:
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.wait([waiting], timeout=0.1)
            await asyncio.to_thread(own_etcd.kill)  # simple tokens live in memory only
            await asyncio.to_thread(own_etcd.restart)
            second = await store.replace("a", b"two", version)
            assert (await waiting).revision == second
        lease = await store.grant_lease(60)
        await asyncio.to_thread(own_etcd.kill)
        await asyncio.to_thread(own_etcd.restart)
        async with watching(store, "a", version) as events:
            assert (await anext(events)).revision == second
        await store.keep_lease(lease)


def test_a_wrong_password_and_no_user_at_all_are_refused_at_once(
    own_etcd: EtcdServer, tmp_path: Path
) -> None:
    wrong = password_file(tmp_path / "p", "wrong")

    async def scenario() -> None:
        config = config_for(own_etcd.endpoint, timeout=20)
        async with opened(replace(config, user="root", password_file=str(wrong))) as store:
            with pytest.raises(StoreUnavailable, match="invalid user ID or password"):
                await store.create("a", b"")
        async with opened(config) as store:
            with pytest.raises(StoreUnavailable, match="user name is empty"):
                await store.get("a")
            with pytest.raises(StoreUnavailable, match=r"user name is empty|permission denied"):
                async with watching(store, "a", 1) as events:
                    await anext(events)

    own_etcd.enable_auth("root", "secret")
    run(scenario(), timeout_seconds=15)


async def test_tls_works_with_the_right_certificate_and_says_what_failed_without(
    tls_etcd: EtcdServer,
) -> None:
    config = config_for(tls_etcd.endpoint, timeout=2.0)
    async with opened(replace(config, ca_cert=str(tls_etcd.certificate))) as store:
        version = await store.create("a", b"one")
        assert await store.get("a") == Versioned("a", b"one", version)
    async with opened(replace(config, tls=True)) as store:
        with pytest.raises(StoreUnavailable, match=r"(?i)handshake failed.*certificate") as failure:
            await store.create("a", b"")
        assert not isinstance(failure.value, OutcomeUnknown)


async def test_renewed_certificates_are_taken_by_a_store_that_is_open(
    tls_etcd: EtcdServer, tmp_path: Path
) -> None:
    """Half of a file, or none, changes nothing; what a store has is used while it is connected."""
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(make_certificates(tmp_path / "another").authority.read_bytes())
    config = replace(config_for(tls_etcd.endpoint, timeout=2.0), ca_cert=str(trusted))
    async with opened(config) as store:
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            await store.create("ledgers/1", b"v")
        trusted.unlink()
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            await store.create("ledgers/1", b"v")
        trusted.write_bytes(tls_etcd.certificate.read_bytes())
        await store.create("ledgers/1", b"v")
        trusted.unlink()
        assert await store.get("ledgers/1") is not None


async def test_tls_to_a_plain_etcd_shows_the_handshake_error(etcd: EtcdServer) -> None:
    async with opened(replace(config_for(etcd.endpoint, timeout=2.0), tls=True)) as store:
        with pytest.raises(StoreUnavailable, match=r"(?i)handshake"):
            await store.get("a")


@pytest.mark.parametrize(("value_bytes", "limit"), [(30_000, 1000), (60_000, 2)])
async def test_a_page_larger_than_a_message_comes_in_smaller_pages(
    etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch, value_bytes: int, limit: int
) -> None:
    small = tuple(
        (name, 100_000 if name == "grpc.max_receive_message_length" else value)
        for name, value in etcd_config.CHANNEL_OPTIONS
    )
    monkeypatch.setattr(etcd_channel, "CHANNEL_OPTIONS", small)
    async with opened(config_for(etcd.endpoint)) as store:
        keys = [f"k/{i}" for i in range(8)]
        for key in keys:
            await store.create(key, b"x" * value_bytes)
        pages = await keys_in_pages(store, "k/", limit)
        assert [key for page in pages for key in page] == keys
        assert len(pages) > math.ceil(len(keys) / limit)


async def test_a_prefix_keeps_clusters_apart(etcd: EtcdServer) -> None:
    config = config_for(etcd.endpoint)
    neighbour = replace(config, prefix=config.prefix + "0")
    async with opened(config) as store, opened(neighbour) as other:
        await other.create("a", b"")
        version = await store.create("b", b"")
        assert [item.key for item in (await store.list_page("")).items] == ["b"]
        async with watching(store, "", version - 2) as events:
            assert (await anext(events)).key == "b"


@pytest.mark.long
def test_a_client_that_is_idle_keeps_its_connection(own_etcd: EtcdServer) -> None:
    """etcd cuts off who pings while nothing is under way: with `too_many_pings`, after the third ping."""

    async def scenario() -> None:
        store = EtcdStore(EtcdConfig((own_etcd.endpoint,), "idle"))
        await store.create("a", b"one")
        connected = _connections_to(own_etcd)
        assert len(connected) == 1
        await asyncio.sleep(IDLE_SECONDS)  # there is nothing to wait for: nothing is to happen
        assert await store.get("a") is not None
        assert _connections_to(own_etcd) == connected
        await store.close()

    run(scenario(), timeout_seconds=2 * IDLE_SECONDS)


def _connections_to(server: EtcdServer) -> set[int]:
    """The local ports of this process's connections to etcd."""
    port = int(server.endpoint.rpartition(":")[2])
    found = psutil.Process().net_connections(kind="tcp")
    return {one.laddr.port for one in found if one.raddr and one.raddr.port == port}
