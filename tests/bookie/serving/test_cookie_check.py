"""A cookie that was lost in the metadata is written anew from the directory, and one that was taken away is not."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.errors import DataDirectoryError
from bookie.serving.cookie_check import RestoredCookie, check_cookie, restore_cookie
from bookie.serving.directory import format_directory, read_cookie
from bookledger.cli.membership.decommission import forget
from metadata import keys
from metadata.backup import hold
from metadata.errors import StoreRefused
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import cluster, decommissioned_bookies
from metadata.records.cluster import PREDECESSORS_MAX, Cookie
from metadata.records.decommissioned_bookies import Decommissioned
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.serving.served import served
from tests.support.faulty_store import FaultyStore
from tests.support.present import there


async def lost(store: MemoryStore, *lost_keys: str) -> None:
    for key in lost_keys:
        found = there(await store.get(key))
        await store.delete(key, found.version)


async def contents(store: MemoryStore) -> dict[str, bytes]:
    return {item.key: item.value for item in (await store.list_page("")).items}


async def refusal(path: Path, store: MemoryStore) -> str:
    """Of `restore_cookie`, which changes nothing then."""
    before = await contents(store)
    with pytest.raises(DataDirectoryError) as refused:
        await restore_cookie(path, store)
    assert await contents(store) == before
    return str(refused.value)


async def refusal_of_start(path: Path, store: MemoryStore) -> str:
    with pytest.raises(DataDirectoryError) as refused:
        await check_cookie(path, store)
    return str(refused.value)


async def started_once(path: Path, store: MemoryStore) -> Cookie:
    """The bookie b1, which has served and was stopped."""
    async with served(path, store) as client:
        return client.bookie.cookie


async def placed(store: MemoryStore, cookie: Cookie) -> None:
    """A ledger on this bookie."""
    ensemble = (BookieRef(cookie.bookie_id, cookie.incarnation),)
    await LedgerStore(store).create(LedgerRecord(70, Shape(1, 1, 1), (Fragment(0, ensemble),)))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def cookie(tmp_path: Path, store: MemoryStore) -> Cookie:
    """Of b1, which has served and was stopped."""
    return await started_once(tmp_path, store)


async def test_a_lost_cookie_is_named_and_written_anew_and_the_bookie_starts(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    await lost(store, keys.cookie("b1"))
    with pytest.raises(DataDirectoryError) as refused:
        await check_cookie(tmp_path / "b1", store)
    said = str(refused.value)
    assert "no cookie of bookie b1, and no record that it was decommissioned: the cookie was lost" in said
    assert f"bookledger bookie restore-cookie --data {tmp_path}/b1" in said
    assert await restore_cookie(tmp_path / "b1", store) == RestoredCookie(cookie, was_missing=True)
    assert await started_once(tmp_path, store) == cookie
    assert await restore_cookie(tmp_path / "b1", store) == RestoredCookie(cookie, was_missing=False)


async def test_a_cookie_is_written_anew_while_its_bookie_lives(tmp_path: Path, store: MemoryStore) -> None:
    async with served(tmp_path, store) as client:
        cookie = client.bookie.cookie
        await lost(store, keys.cookie("b1"), keys.life("b1"))
        assert await restore_cookie(tmp_path / "b1", store) == RestoredCookie(cookie, was_missing=True)
    assert await cluster.read_cookie(store, "b1") == cookie


async def test_a_cookie_that_was_taken_away_stays_away(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    await decommissioned_bookies.note(store, Decommissioned("b1", cookie.incarnation, 1_700_000_000_000))
    assert await check_cookie(tmp_path / "b1", store) == cookie  # until it is gone
    await lost(store, keys.cookie("b1"))
    for said in (await refusal(tmp_path / "b1", store), await refusal_of_start(tmp_path / "b1", store)):
        assert "b1, which was decommissioned at 2023-11-14T22:13:20Z" in said
        assert "format an empty directory for a new bookie" in said
    await decommissioned_bookies.take_back(store, cookie.incarnation)
    assert (await restore_cookie(tmp_path / "b1", store)).was_missing


async def test_one_that_was_decommissioned_does_not_join_again_while_older_metadata_waits(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    await decommissioned_bookies.note(store, Decommissioned("b1", cookie.incarnation, 1_700_000_000_000))
    await lost(store, keys.cookie("b1"))
    await hold.begin(store, backup_ms=1, now_ms=2)
    assert "b1, which was decommissioned" in await refusal_of_start(tmp_path / "b1", store)


class Disks:
    """Metadata in which b1 was formatted, a copy of it from then, and the disks that have taken the name since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now, self.copy = MemoryStore(MemoryData()), MemoryStore(MemoryData())

    async def takes(self, name: str, store: MemoryStore | None = None) -> Cookie:
        """A disk that nobody has yet takes the name over."""
        return await format_directory(self.path / name, "b1", store or self.now, replace=True)

    async def is_foreign(self, name: str, store: MemoryStore) -> bool:
        """A start on this disk is refused."""
        return "old or foreign disk" in await refusal_of_start(self.path / name, store)


@pytest.fixture
async def disks(tmp_path: Path) -> Disks:
    """`first` is the only one."""
    disks = Disks(tmp_path)
    await disks.takes("first")
    for key, value in (await contents(disks.now)).items():
        await disks.copy.create(key, value)
    return disks


async def test_whether_a_disk_is_newer_than_restored_metadata_is_told_by_what_it_replaced_and_by_no_clock(
    disks: Disks,
) -> None:
    await disks.takes("second")
    third = await disks.takes("third")
    for name, day in (("first", 3), ("second", 2), ("third", 1)):
        os.utime(disks.path / name / "cookie.json", (day * 86400, day * 86400))
    await hold.begin(disks.now, backup_ms=1, now_ms=2)
    assert await disks.is_foreign("first", disks.now) and await disks.is_foreign("second", disks.now)
    assert await disks.is_foreign("third", disks.copy)
    await hold.begin(disks.copy, backup_ms=10 * 86_400_000, now_ms=2)
    assert await check_cookie(disks.path / "third", disks.copy) == third
    assert await disks.is_foreign("second", disks.copy)


async def test_a_disk_whose_name_was_decommissioned_in_between_is_newer_than_the_metadata_too(
    disks: Disks,
) -> None:
    for name in ("second", "third"):
        await forget(disks.now, "b1")
        await disks.takes(name)
    await hold.begin(disks.copy, backup_ms=10 * 86_400_000, now_ms=2)
    third = await check_cookie(disks.path / "third", disks.copy)
    assert third == await cluster.read_cookie(disks.copy, "b1")
    assert await disks.is_foreign("first", disks.copy)


async def test_a_disk_that_took_a_name_in_metadata_that_is_given_up_does_not_take_it_from_its_successor_there(
    disks: Disks,
) -> None:
    for name in ("second", "third"):
        await disks.takes(name)
    await disks.takes("other", disks.copy)
    await hold.begin(disks.copy, backup_ms=1, now_ms=2)
    assert await disks.is_foreign("third", disks.copy)


async def test_a_bookie_that_was_away_when_older_metadata_was_accepted_joins_it_all_the_same(
    disks: Disks,
) -> None:
    second = await disks.takes("second")
    new = await format_directory(disks.path / "new", "b2", disks.now)
    for name in ("second", "new"):
        await refusal_of_start(disks.path / name, disks.copy)
    await hold.begin(disks.copy, backup_ms=0, now_ms=2)
    assert await hold.accept(disks.copy)
    for name, cookie in (("second", second), ("new", new)):
        assert await check_cookie(disks.path / name, disks.copy) == cookie
    assert await disks.is_foreign("first", disks.copy)
    assert not await hold.accept(disks.copy), "nothing is held back"


@pytest.mark.parametrize("is_known", [True, False])
async def test_where_bookies_write_no_cookies_an_admin_has_a_disk_join_that_older_metadata_does_not_know(
    disks: Disks, is_known: bool
) -> None:
    """As etcd has it for the role of bookies. One of that name it may know, or it knows of the cluster alone."""
    second = await disks.takes("second")
    if not is_known:
        await lost(disks.copy, *(await contents(disks.copy)).keys() - {keys.LAYOUT})
    await hold.begin(disks.copy, backup_ms=0, now_ms=2)
    denied = FaultyStore(disks.copy._data)
    denied.fail(StoreRefused("permission denied"), calls=["create", "replace"], keys=keys.COOKIES)
    said = await refusal_of_start(disks.path / "second", denied)
    assert "restore-cookie --data" in said and "role admin" in said
    assert (await restore_cookie(disks.path / "second", disks.copy)).was_missing
    assert await check_cookie(disks.path / "second", denied) == second


async def test_a_disk_that_notes_no_predecessor_is_newer_where_an_operator_writes_so_into_its_cookie(
    disks: Disks,
) -> None:
    first, second = read_cookie(disks.path / "first"), await disks.takes("second")
    file, fields = disks.path / "second" / "cookie.json", {"version": 1, **second.names, "predecessors": []}
    file.write_text(json.dumps(fields))
    await hold.begin(disks.copy, backup_ms=1, now_ms=2)
    wanted = f'add "{first.incarnation}" to the predecessors in {file}'
    assert wanted in await refusal_of_start(disks.path / "second", disks.copy)
    file.write_text(json.dumps({**fields, "predecessors": [first.incarnation]}))
    assert await check_cookie(disks.path / "second", disks.copy) == second


async def test_a_cookie_remembers_a_bounded_number_of_predecessors(
    tmp_path: Path, store: MemoryStore
) -> None:
    made = [
        await format_directory(tmp_path / str(n), "b1", store, replace=True)
        for n in range(PREDECESSORS_MAX + 2)
    ]
    names = tuple(cookie.incarnation for cookie in made)
    assert read_cookie(tmp_path / str(PREDECESSORS_MAX + 1)).predecessors == names[1:-1]


async def test_a_bookie_that_is_given_up_gets_no_cookie_before_that_is_taken_back(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    await lost(store, keys.cookie("b1"))
    await operator_requests.give(store, Order("b1", OrderKind.GIVEN_UP, 0))
    said = await refusal(tmp_path / "b1", store)
    assert "bookledger cluster decommission b1 --cancel" in said


async def test_a_name_that_another_directory_has_is_not_taken_from_it(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    await lost(store, keys.cookie("b1"))
    new = await format_directory(tmp_path / "new", "b1", store)
    said = await refusal(tmp_path / "b1", store)
    assert f"the name b1 now belongs to another directory (incarnation {new.incarnation})" in said


async def test_a_name_under_which_another_one_lives_is_not_taken_from_it(
    tmp_path: Path, store: MemoryStore
) -> None:
    await format_directory(tmp_path / "stranger", "b1", store)
    await lost(store, keys.cookie("b1"))
    async with served(tmp_path, store) as client:
        await lost(store, keys.cookie("b1"))
        said = await refusal(tmp_path / "stranger", store)
        assert f"belongs to another directory (incarnation {client.bookie.cookie.incarnation})" in said


async def test_a_directory_of_another_cluster_or_one_that_is_not_whole_restores_nothing(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    elsewhere = MemoryStore(MemoryData())
    await format_directory(tmp_path / "there", "b2", elsewhere)
    assert "of another cluster" in await refusal(tmp_path / "b1", elsewhere)
    await lost(store, keys.cookie("b1"))
    (tmp_path / "b1" / "index").rename(tmp_path / "aside")
    assert "index is missing" in await refusal(tmp_path / "b1", store)


async def test_where_the_life_is_lost_too_the_directory_counts_as_an_older_copy(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    """R6: an older copy of the directory must not deny what it never had."""
    await placed(store, cookie)
    await lost(store, keys.cookie("b1"), keys.life("b1"))
    found = await restore_cookie(tmp_path / "b1", store)
    assert found == RestoredCookie(cookie, was_missing=True, must_accept_loss=True)
    with pytest.raises(DataDirectoryError, match="older copy"):
        await started_once(tmp_path, store)
    async with served(tmp_path, store, accept_loss=True) as client:
        assert client.bookie.bookie.states.peek(70).limbo


async def test_what_was_decommissioned_without_a_record_is_known_by_that_nothing_refers_to_it(
    tmp_path: Path, store: MemoryStore, cookie: Cookie
) -> None:
    await placed(store, replace(cookie, incarnation="11111111-1111-1111-1111-111111111111"))
    await lost(store, keys.cookie("b1"), keys.life("b1"))
    said = await refusal(tmp_path / "b1", store)
    assert "no ledger refers to bookie b1" in said and "it was decommissioned, or never held anything" in said


async def test_a_bookie_that_never_started_lacks_no_life(tmp_path: Path, store: MemoryStore) -> None:
    cookie = await format_directory(tmp_path / "b1", "b1", store)
    await lost(store, keys.cookie("b1"))
    assert await restore_cookie(tmp_path / "b1", store) == RestoredCookie(cookie, was_missing=True)
