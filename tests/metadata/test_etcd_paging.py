"""Pages of a listing on etcd: all keys once, no answer that is much too large, no range that is counted to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from metadata.etcd import etcd_pb2 as pb
from metadata.etcd.config import EtcdConfig
from metadata.etcd.store import IDS_EACH, PAGE_BYTES, PREFIXES_MAX, EtcdStore, Paging
from metadata.store import PAGE_KEYS_MAX, list_all, list_some
from tests.support.etcd import EtcdServer

IDS = [*range(1, 5000), *range(10_000, 900_000, 1000), 2**40, *range(2**62, 2**62 + 1500), 2**63 - 1]


class Seen(EtcdStore):
    """Remembers the answers to ranges."""

    def __init__(self, config: EtcdConfig) -> None:
        super().__init__(config)
        self.answers: list[pb.RangeResponse] = []

    async def _range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        found = await super()._range(request)
        self.answers.append(found)
        return found


@pytest.fixture
async def store(etcd: EtcdServer) -> AsyncIterator[Seen]:
    store = Seen(EtcdConfig(endpoints=(etcd.endpoint,), prefix=f"test/{uuid4().hex}"))
    yield store
    await store.close()


async def put(store: Seen, keys: list[str], value: bytes) -> None:
    for first in range(0, len(keys), 100):
        request = pb.TxnRequest()
        for key in keys[first : first + 100]:
            request.success.add().request_put.CopyFrom(pb.PutRequest(key=store._to_etcd(key), value=value))
        await store._changes.run(request)


@pytest.mark.parametrize("limit", [PAGE_KEYS_MAX, 7])
async def test_every_key_is_listed_once_however_far_their_numbers_are_apart(store: Seen, limit: int) -> None:
    ids = IDS if limit > 100 else IDS[4900:5100]
    keys = [f"n/{n:016x}" for n in ids]
    await put(store, keys, b"v" * 100)
    assert [one.key async for one in list_all(store, "n/", limit=limit)] == keys
    assert [one.key async for one in list_all(store, "n/", after=keys[len(keys) // 2], limit=limit)] == keys[
        len(keys) // 2 + 1 :
    ]


async def test_what_is_behind_a_page_is_not_counted_for_each_page(store: Seen) -> None:
    await put(store, [f"n/{n:016x}" for n in range(20_000)], b"v")
    store.answers.clear()
    assert len([one async for one in list_all(store, "n/")]) == 20_000
    pages = len(store.answers)
    assert pages <= 23
    assert sum(found.count for found in store.answers) <= 20_000 + IDS_EACH * PAGE_KEYS_MAX * pages


async def test_pages_of_large_values_have_fewer_keys(store: Seen) -> None:
    await put(store, [f"n/{n:016x}" for n in range(200)], b"v" * 10_000)
    assert len([one async for one in list_all(store, "n/")]) == 200
    assert max(found.ByteSize() for found in store.answers) <= 1.3 * PAGE_BYTES
    assert len(store.answers) <= 8


async def test_the_first_keys_are_found_in_as_many_pages_as_they_take(store: Seen) -> None:
    keys = [f"names/{n:03}" for n in range(300)]
    await put(store, keys, b"v" * 8_000)
    page = await list_some(store, "names/", limit=250)
    assert [one.key for one in page.items] == keys[:250] and page.next_after == keys[249]
    assert len(store.answers) > 2 and page.revision == store.answers[0].header.revision
    rest = await list_some(store, "names/", after=page.next_after, limit=250)
    assert [one.key for one in rest.items] == keys[250:] and rest.next_after is None


async def test_no_more_is_learnt_of_prefixes_than_is_bounded(store: Seen) -> None:
    store._paging = {f"p{n}/": Paging() for n in range(PREFIXES_MAX + 1)}
    await store.list_page("n/")
    assert set(store._paging) == {"n/"}


async def test_keys_that_end_in_no_number_are_listed_as_ever(store: Seen) -> None:
    keys = sorted(f"names/{n}" for n in range(1500))
    await put(store, keys, b"v")
    assert [one.key async for one in list_all(store, "names/")] == keys


def test_a_range_ends_behind_the_most_likely_end_of_the_page_and_widens_where_it_held_less() -> None:
    paging = Paging()
    assert paging.end(b"p/n/%016x" % 10, 100) == b"p/n/%016x" % (10 + int(100 * IDS_EACH))
    assert paging.end(b"p/n/name", 100) is None
    assert paging.end(b"p/n/%016x" % (2**63 - 2), 100) is None
    paging.learn([], 100)
    wider = paging.end(b"p/n/%016x" % 10, 100)
    assert wider is not None and int(wider[-16:], 16) > 1000
    paging.learn([pb.KeyValue(key=b"p/n/%016x" % n, value=b"") for n in range(100)], 100)
    assert paging.end(b"p/n/%016x" % 10, 100) == b"p/n/%016x" % (10 + int(100 * IDS_EACH))
