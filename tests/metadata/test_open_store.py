"""Metadata URIs open the right store, and say what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from metadata.errors import BadMetadataUri, StoreUnavailable
from metadata.etcd.etcd_uri import config_in
from metadata.sqlite.sqlite_file import SqliteFile
from metadata.sqlite.sqlite_uri import uri_of
from metadata.store import MetadataStore, Versioned
from metadata.store_factory import open_store
from metadata.uris import split
from tests.support.etcd import EtcdServer
from tests.support.secrets import password_file


async def round_trip(uri: str) -> None:
    """What one store writes, another of the same URI reads."""
    stores: list[MetadataStore] = [await open_store(uri, create=True), await open_store(uri)]
    version = await stores[0].create("a", b"one")
    assert await stores[1].get("a") == Versioned("a", b"one", version)
    for store in stores:
        await store.close()


async def test_a_memory_uri_opens_the_same_data_by_name() -> None:
    await round_trip("memory://test-open-store")


async def test_a_sqlite_uri_opens_the_file_also_with_spaces_and_escapes(tmp_path: Path) -> None:
    await round_trip(f"sqlite://{tmp_path}/a%20%23%3F.db")
    assert (tmp_path / "a #?.db").exists()


@pytest.mark.parametrize(
    "name", ["we#ird", "what?", "100%", "a b", "%41", "ünï", "q'u\"ote", "back\\slash", "\udcff"]
)
async def test_the_uri_of_a_path_opens_the_file_of_that_path(tmp_path: Path, name: str) -> None:
    await round_trip(uri_of(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"{name}.lock"])


def test_a_relative_path_has_an_absolute_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert uri_of("meta.db") == f"sqlite://{tmp_path}/meta.db"


async def test_a_file_that_is_not_there_is_refused_with_what_makes_one_and_nothing_is_made(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadMetadataUri, match="there is no such file; `bookledger standalone` and"):
        await open_store(f"sqlite://{tmp_path}/mistyped.db")
    assert list(tmp_path.iterdir()) == []


async def test_an_empty_file_is_refused_and_stays_empty_unless_it_is_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "meta.db").touch()
    uri = f"sqlite://{tmp_path}/meta.db"
    with pytest.raises(BadMetadataUri, match="the file is empty; `bookledger standalone` and"):
        await open_store(uri)
    assert (tmp_path / "meta.db").stat().st_size == 0
    await round_trip(uri)


def test_a_file_that_vanished_is_not_replaced_by_an_empty_one_when_it_is_opened_again(tmp_path: Path) -> None:
    """An empty store would answer that there are no ledgers."""
    path = tmp_path / "meta.db"
    file = SqliteFile(str(path), create=True, events_kept_max=10)
    file.create("a", b"", None)
    file.close()
    path.unlink()
    with pytest.raises(StoreUnavailable, match="there is no such file"):
        file.get("a")
    assert not path.exists()


async def test_an_etcd_uri_opens_the_cluster_with_options(etcd: EtcdServer) -> None:
    await round_trip(f"etcd://{etcd.endpoint},[::1]:1/test/open-store?timeout=5")


async def test_an_etcd_uri_reads_the_password_from_a_file(own_etcd: EtcdServer, tmp_path: Path) -> None:
    own_etcd.enable_auth("root", "secret")
    password_file(tmp_path / "password", "secret\n")
    await round_trip(f"etcd://{own_etcd.endpoint}/p?user=root&password_file={tmp_path}/password")


async def test_an_etcds_uri_uses_tls(tls_etcd: EtcdServer) -> None:
    await round_trip(f"etcds://{tls_etcd.endpoint}/p?ca_cert={tls_etcd.certificate}")


def test_an_endpoint_of_an_etcd_uri_that_names_no_port_has_the_port_of_etcd() -> None:
    config = config_in(split("etcd://a,b:5,[::1]/p"))
    assert config.endpoints == ("a:2379", "b:5", "[::1]:2379")


async def test_opening_a_cluster_that_is_down_is_no_error() -> None:
    await (await open_store("etcd://127.0.0.1:1/p")).close()


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "no scheme"),
        ("/var/lib/meta.db", "no scheme"),
        ("zk://localhost/p", "scheme 'zk' is not known"),
        ("etcd://localhost:2379", "prefix is required"),
        ("etcd:///p", "not HOST:PORT"),
        ("etcd://a:1,,b:2/p", "not HOST:PORT"),
        ("etcd://a:notaport/p", "Port could not be cast"),
        ("etcd://a:70000/p", "Port out of range"),
        ("etcd://a:0/p", "not HOST:PORT"),
        ("etcd://root:secret@a:1/p", "password_file"),
        ("etcd://a:1/p?colour=red", "'colour' is not known"),
        ("etcd://a:1/p?timeout=soon", "timeout=soon is not a number"),
        ("etcd://a:1/p?timeout=0", "above 0"),
        ("etcd://a:1/p?timeout=1&timeout=2", "twice"),
        ("etcd://a:1/p?user=root", "user and password_file must be given together"),
        ("etcd://a:1/p?user=root&password_file=/nonexistent/pw", "cannot read /nonexistent/pw: No such file"),
        ("etcd://a:1/p?ca_cert=/ca.pem", "use an etcds:// URL"),
        ("etcds://a:1/p?cert_cert=/c.pem", "cert_cert and cert_key must be given together"),
        ("etcds://a:1/p?ca_cert=/nonexistent/ca.pem", "cannot read /nonexistent/ca.pem: No such file"),
        ("sqlite:meta.db", "absolute"),
        ("sqlite://meta.db", "absolute"),
        ("sqlite:///tmp/", "must name a file"),
        ("sqlite:///tmp/a.db?mode=ro", "no options"),
        ("sqlite:///tmp/a.db#x", "write it as %23"),
        ("sqlite:///nonexistent/meta.db", "there is no such file"),
        ("memory://", "memory://NAME"),
    ],
)
async def test_a_uri_that_cannot_be_used_is_refused_with_the_reason(uri: str, why: str) -> None:
    with pytest.raises(BadMetadataUri) as refusal:
        await open_store(uri)
    assert why in str(refusal.value)


async def test_a_missing_directory_is_named_to_whom_wants_to_make_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(BadMetadataUri, match=f"directory {missing} does not exist; create it"):
        await open_store(f"sqlite://{missing}/meta.db", create=True)
