"""What is told of etcd's members, and which versions are refused."""

from __future__ import annotations

import pytest

from metadata.errors import StoreTooOld
from metadata.etcd import store as etcd_store
from metadata.etcd.store import EtcdConfig, EtcdStore
from metadata.store import StoreHealth
from tests.support.aio import run
from tests.support.etcd import EtcdServer, free_port
from tests.support.model_etcd import ModelEtcd


def health(version: str, *more_endpoints: str) -> StoreHealth:
    async def scenario() -> StoreHealth:
        etcd = ModelEtcd()
        etcd.version = version
        async with etcd.serving() as endpoint:
            store = EtcdStore(EtcdConfig((endpoint, *more_endpoints), "prefix", timeout=60))
            try:
                return await store.health()
            finally:
                await store.close()

    return run(scenario())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers late, on a busy machine, answers all the same."""
    monkeypatch.setattr(etcd_store, "HEALTH_SECONDS_MAX", 60.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("version", ["3.3.27", "2.3.8"])
def test_an_old_version_is_refused_by_name(version: str) -> None:
    with pytest.raises(StoreTooOld, match=f"etcd is version {version}; use 3.4 or newer"):
        health(version)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("version", "is_told"),
    [
        ("3.4.21", True),
        ("3.4.22", False),
        ("3.5.1", True),
        ("3.5.5", True),
        ("3.5.6", False),
        ("3.6.0-rc.1", False),
        ("own", False),
    ],
)
def test_a_version_that_may_lose_writes_is_told(version: str, is_told: bool) -> None:
    found = health(version)
    assert found.version == version
    assert ("upgrade it" in found.doubt) == is_told


def test_a_member_that_does_not_answer_is_told_and_no_error() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    found = health("3.5.9", nobody)
    assert (found.kind, found.size_bytes) == ("etcd", 4096)
    assert "leader" in found.members.values()
    assert "UNAVAILABLE" in found.members[nobody]


def test_the_real_one_tells_of_itself(etcd: EtcdServer) -> None:
    async def scenario() -> StoreHealth:
        store = EtcdStore(EtcdConfig((etcd.endpoint,), "prefix"))
        try:
            return await store.health()
        finally:
            await store.close()

    found = run(scenario())
    assert found.version.startswith("3.") and found.members == {etcd.endpoint: "leader"}
