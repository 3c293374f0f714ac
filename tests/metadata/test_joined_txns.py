"""Changes of one turn of the loop are one call to etcd, reads another, and each succeeds or fails by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from metadata import settled_writes
from metadata.errors import KeyExists, NoSuchKey, OutcomeUnknown, VersionConflict
from metadata.etcd.joined_txns import CONDITIONS_MAX
from metadata.etcd.store import EtcdConfig, EtcdStore
from metadata.version import Version
from tests.metadata.test_etcd_store import opened
from tests.support.etcd import EtcdServer
from tests.support.model_etcd import Break, ModelEtcd


@pytest.fixture
async def store(etcd: EtcdServer) -> AsyncIterator[EtcdStore]:
    async with opened(EtcdConfig((etcd.endpoint,), uuid4().hex)) as store:
        yield store


async def test_changes_of_one_turn_are_one_call_and_reads_another() -> None:
    etcd = ModelEtcd()
    async with etcd.serving() as endpoint, opened(EtcdConfig((endpoint,), "p")) as store:
        names = [f"k/{n}" for n in range(CONDITIONS_MAX)]
        versions = await asyncio.gather(*(store.create(name, b"1") for name in names))
        assert etcd.messages == 1
        found = await asyncio.gather(*map(store.get, [*names, "missing"]))
        assert etcd.messages == 3, "one more than go together"
        assert [one and one.version for one in found] == [*versions, None]


async def test_each_succeeds_or_fails_by_itself(store: EtcdStore) -> None:
    await store.create("bar", b"")
    there = await store.create("there", b"1")
    mine = await store.create("mine", b"1")
    outcomes = await asyncio.gather(
        store.create("new", b"1"),
        store.create("there", b"2"),
        store.create("barred", b"1", unless="bar"),
        store.replace("mine", b"2", mine),
        store.replace("missing", b"2", Version(7)),
        store.delete("bar", Version(1)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [
        Version,
        KeyExists,
        KeyExists,
        Version,
        NoSuchKey,
        VersionConflict,
    ]
    stand = {item.key: (item.value, item.version) for item in (await store.list_page("")).items}
    assert stand["new"] == (b"1", outcomes[0]) and stand["mine"] == (b"2", outcomes[3])
    assert stand["there"] == (b"1", there) and stand.keys() == {"bar", "there", "mine", "new"}


async def test_of_changes_of_one_key_in_one_turn_one_is_made(store: EtcdStore) -> None:
    version = await store.create("k", b"1")
    changes = [store.replace("k", b"%d" % n, version) for n in range(5)]
    outcomes = await asyncio.gather(*changes, store.delete("k", version), return_exceptions=True)
    lost = [isinstance(one, VersionConflict | NoSuchKey) for one in outcomes]
    assert sorted(lost) == [False, *[True] * 5]


async def test_a_change_that_bars_another_one_does_not_go_with_it(store: EtcdStore) -> None:
    """Else both would be made, as in no order of the two."""
    outcomes = await asyncio.gather(
        store.create("a", b"", unless="b"), store.create("b", b"", unless="a"), return_exceptions=True
    )
    assert sum(isinstance(outcome, KeyExists) for outcome in outcomes) == 1


async def test_where_etcd_takes_fewer_at_once_each_goes_alone(tmp_path: Path) -> None:
    with EtcdServer(tmp_path, options=["--max-txn-ops", "8"]) as etcd:
        store = EtcdStore(EtcdConfig((etcd.endpoint,), "p"))
        outcomes = await asyncio.gather(
            *(store.create(f"{n % 10}", b"") for n in range(20)), return_exceptions=True
        )
        assert sum(isinstance(outcome, KeyExists) for outcome in outcomes) == 10
        assert len((await store.list_page("")).items) == 10
        await store.close()


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_one_that_is_cancelled_takes_no_other_with_it(cancelled: int, store: EtcdStore) -> None:
    creations = [asyncio.create_task(store.create(f"{n}", b"")) for n in range(3)]
    await asyncio.sleep(0)
    creations[cancelled].cancel()
    outcomes = await asyncio.gather(*creations, return_exceptions=True)
    assert isinstance(outcomes.pop(cancelled), asyncio.CancelledError)
    assert all(isinstance(outcome, int) for outcome in outcomes)


async def test_a_lost_answer_leaves_each_unknown_and_each_is_settled() -> None:
    etcd = ModelEtcd({1: Break.LOST, 2: Break.LOST})
    async with etcd.serving() as endpoint, opened(EtcdConfig((endpoint,), "p")) as store:
        outcomes = await asyncio.gather(
            *(store.create(f"{n}", b"") for n in range(3)), return_exceptions=True
        )
        assert all(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        values = [settled_writes.new_nonce() for _ in range(3)]
        settled = [settled_writes.create(store, f"s/{n}", value) for n, value in enumerate(values)]
        versions = await asyncio.gather(*settled)
        stand = [(item.value, item.version) for item in (await store.list_page("s/")).items]
        assert stand == list(zip(values, versions, strict=True))
