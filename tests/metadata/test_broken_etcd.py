"""The etcd store against an etcd that breaks at every message, and one that refuses in every way."""

from __future__ import annotations

from contextlib import aclosing

import grpc
import pytest

from metadata.errors import OutcomeUnknown, StoreRefused, StoreTooOld, StoreUnavailable
from metadata.etcd import etcd_pb2 as pb
from metadata.etcd import store as etcd_store
from metadata.etcd import watch as watch_module
from metadata.etcd.config import EtcdConfig
from metadata.store import EventKind, StoreHealth, WatchEvent
from tests.metadata.test_etcd_store import opened
from tests.support.aio import run, take
from tests.support.etcd import EtcdServer, free_port
from tests.support.fake_etcd import Break, Change, FakeEtcd
from tests.support.model_etcd import ModelEtcd

PREFIX = "p"


def put(revision: int, key: str) -> pb.Event:
    value = f"{key} at {revision}".encode()
    return pb.Event(
        type=pb.Event.PUT, kv=pb.KeyValue(key=f"{PREFIX}/{key}".encode(), value=value, mod_revision=revision)
    )


def deleted(revision: int, key: str) -> pb.Event:
    return pb.Event(
        type=pb.Event.DELETE, kv=pb.KeyValue(key=f"{PREFIX}/{key}".encode(), mod_revision=revision)
    )


HISTORY: list[Change] = [
    (put(2, "a/1"),),
    (put(3, "a/2"), put(3, "a/3"), deleted(3, "a/1")),  # of one transaction: one revision
    (put(4, "elsewhere"),),
    (put(5, "a/1"),),
    (put(6, "elsewhere"),),
    (put(7, "elsewhere"),),
    (deleted(8, "a/2"),),
    (put(9, "a/2"), put(9, "a/9")),
    (put(10, "elsewhere"),),
    (put(11, "a/1"),),
]
FROM = 2
"""The revision the watch has seen already."""

WANTED = [
    (e.type, e.kv.key.decode().removeprefix(f"{PREFIX}/"), e.kv.mod_revision)
    for change in HISTORY
    for e in change
    if e.kv.key.startswith(b"p/a/") and e.kv.mod_revision > FROM
]


def told(event: WatchEvent) -> tuple[int, str, int]:
    kind = pb.Event.DELETE if event.kind is EventKind.DELETE else pb.Event.PUT
    return kind, event.key, event.revision


async def watched(etcd: FakeEtcd) -> list[tuple[int, str, int]]:
    async with (
        etcd.serving() as endpoint,
        opened(EtcdConfig((endpoint,), PREFIX)) as store,
        aclosing(store.watch("a/", after_revision=FROM)) as events,
    ):
        return [told(event) for event in await take(len(WANTED), events)]


@pytest.fixture(autouse=True)
def resumes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "RESUME_PAUSE_SECONDS", 0.0)


async def test_a_watch_whose_stream_stays_gives_every_event_once() -> None:
    etcd = FakeEtcd(HISTORY, seen_at_start=3)
    assert await watched(etcd) == WANTED
    assert etcd.streams == 1


@pytest.mark.parametrize("is_sent", [False, True], ids=["in place of the message", "behind it"])
@pytest.mark.parametrize("breaks", Break)
@pytest.mark.parametrize("seen_at_start", [1, 5, len(HISTORY)])
def test_a_watch_that_breaks_at_any_message_drops_no_event_and_repeats_none(
    breaks: Break, is_sent: bool, seen_at_start: int
) -> None:
    calm = FakeEtcd(HISTORY, seen_at_start=seen_at_start)
    run(watched(calm))
    for message in range(calm.messages):
        etcd = FakeEtcd(HISTORY, seen_at_start, break_at=message, breaks=breaks, is_sent=is_sent)
        assert run(watched(etcd)) == WANTED, f"broken at message {message}"
        assert etcd.streams >= 2 or message == calm.messages - 1


# --- the table of errors ------------------------------------------------------------------------------

REFUSES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
}
HANGS_SECONDS = 60.0
CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]


async def error_of(code: grpc.StatusCode, *, writes: bool) -> tuple[type[Exception], list[str]]:
    etcd = FakeEtcd([], refusal=(code, "etcdserver: says so"))
    async with etcd.serving() as endpoint, opened(EtcdConfig((endpoint,), PREFIX, timeout=0.5)) as store:
        try:
            await (store.create("a", b"x") if writes else store.get("a"))
        except StoreUnavailable as error:
            return type(error), etcd.calls
    raise AssertionError("it was refused")


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_write_is_refused_only_where_etcd_has_certainly_changed_nothing(code: grpc.StatusCode) -> None:
    """M1: whatever else it says, also that a resource is exhausted, the write may stand or be applied yet."""
    kind, calls = run(error_of(code, writes=True))
    assert issubclass(kind, StoreRefused if code in REFUSES else OutcomeUnknown)
    assert len(calls) == 1, "a write is never sent twice"


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
async def test_a_read_is_repeated_unless_etcd_said_no(code: grpc.StatusCode) -> None:
    etcd = FakeEtcd([], refusal=(code, "etcdserver: says so"), refusals_max=2)
    async with (
        etcd.serving() as endpoint,
        opened(EtcdConfig((endpoint,), PREFIX, timeout=HANGS_SECONDS)) as store,
    ):
        if code in REFUSES or code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            with pytest.raises(StoreRefused):
                await store.get("a")
            assert len(etcd.calls) == 1
        else:
            assert await store.get("a") is None
            assert len(etcd.calls) == 3


def test_an_etcd_that_stays_unavailable_is_asked_again_after_a_pause_until_the_time_is_up() -> None:
    kind, calls = run(error_of(grpc.StatusCode.UNAVAILABLE, writes=False))
    assert not issubclass(kind, StoreRefused | OutcomeUnknown)
    assert 1 <= len(calls) <= 10, "within half a second"


# --- what is told of etcd's members, and which versions are refused


async def health(version: str, *more_endpoints: str) -> StoreHealth:
    etcd = ModelEtcd()
    etcd.version = version
    async with (
        etcd.serving() as endpoint,
        opened(EtcdConfig((endpoint, *more_endpoints), "prefix", timeout=60)) as store,
    ):
        return await store.health()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers late, on a busy machine, answers all the same."""
    monkeypatch.setattr(etcd_store, "HEALTH_SECONDS_MAX", 60.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("version", ["3.3.27", "2.3.8"])
async def test_an_old_version_is_refused_by_name(version: str) -> None:
    with pytest.raises(StoreTooOld, match=f"etcd is version {version}; use 3.4 or newer"):
        await health(version)


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
async def test_a_version_that_may_lose_writes_is_told(version: str, is_told: bool) -> None:
    found = await health(version)
    assert found.version == version
    assert ("upgrade it" in found.doubt) == is_told


async def test_a_member_that_does_not_answer_is_told_and_no_error() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    found = await health("3.5.9", nobody)
    assert (found.kind, found.size_bytes) == ("etcd", 4096)
    assert "leader" in found.members.values()
    assert "UNAVAILABLE" in found.members[nobody]


async def test_the_real_one_tells_of_itself(etcd: EtcdServer) -> None:
    async with opened(EtcdConfig((etcd.endpoint,), "prefix")) as store:
        found = await store.health()
    assert found.version.startswith("3.") and found.members == {etcd.endpoint: "leader"}
