"""What a member of etcd refuses for what it itself is goes to the next one, with a real learner first."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from metadata import opened_store
from metadata.errors import StoreUnavailable
from metadata.etcd.channel import EtcdChannels
from metadata.etcd.errors import Effect, FailureVerdict, verdict_on
from tests.support.etcd import START_SECONDS_MAX, _free_ports, _text
from tests.support.etcd_cluster import EtcdCluster, Member, etcd_cluster
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("code", "details", "verdict"),
    [
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader", FailureVerdict.NOT_SENT),
        (grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: not capable", FailureVerdict.NOT_HERE),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown method LeaseLeases", FailureVerdict.NOT_HERE),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: server stopped", FailureVerdict.UNKNOWN),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed", FailureVerdict.UNKNOWN),
    ],
)
def test_only_what_is_said_before_anything_is_done_sends_a_change_to_the_next_member(
    code: grpc.StatusCode, details: str, verdict: FailureVerdict
) -> None:
    """A member that stops, or whose leader changes, may have proposed it before: that answer is lost (M1)."""
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
    assert verdict_on(error, Effect.ONCE) is verdict


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd_cluster(tmp_path_factory.mktemp("learner") / "etcd") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def learner(cluster: EtcdCluster) -> Iterator[Member]:
    """One that has joined, and does not vote."""
    first = cluster.members[0]
    one = Member("m3", first._directory, cluster._certificates, (_free_ports(2)[0], _free_ports(2)[1]))
    added = _text(1, one.peer) + bytes([0x10, 1])

    def is_added() -> bool:
        try:
            cluster.call(first, "Cluster/MemberAdd", added, cluster._token())
        except grpc.RpcError as error:  # while its members have not met for five seconds
            if "unhealthy cluster" not in str(error.details()):
                raise
            return False
        return True

    until(is_added, START_SECONDS_MAX)
    one.launch(f"{cluster._initial},{one.name}={one.peer}", "existing")
    until(lambda: cluster._status(one).leader != 0, START_SECONDS_MAX)
    yield one
    one.kill()


async def test_a_learner_before_the_voters_hinders_nothing(cluster: EtcdCluster, learner: Member) -> None:
    uri = cluster.uri.replace("etcds://", f"etcds://{learner.endpoint},")
    async with opened_store(uri) as store:
        version = await store.create("made", b"1")
        found = await store.get("made")
        assert found is not None and found.version == version
        health = await store.health()
        assert health.members[learner.endpoint] == "learner"
        assert "leader" in health.members.values()
    async with opened_store(uri) as store:
        lease = await store.grant_lease(30)
        await store.create("leased", b"", lease=lease)
    for call in ("watch", "keep"):
        async with opened_store(uri) as store:
            if call == "keep":
                await store.keep_lease(lease)
                continue
            events = store.watch("made", after_revision=version - 1)
            assert (await anext(events)).revision == version
            await events.aclose()


@pytest.mark.parametrize("effect", ["reads", "changes"])
async def test_each_call_to_a_learner_goes_on_to_a_voter(
    cluster: EtcdCluster, learner: Member, effect: str
) -> None:
    """Also where the token is known already, so that it is the call itself that is refused."""
    uri = cluster.uri.replace("etcds://", f"etcds://{learner.endpoint},")
    async with opened_store(uri) as store:
        await store.get("made")
        channels: EtcdChannels = store._channels  # type: ignore[attr-defined]
        channels._current = 0
        if effect == "reads":
            await store.get("made")
        else:
            await store.create("made too", b"")
        assert channels.endpoint != learner.endpoint


async def test_where_only_learners_are_named_it_is_said_at_once(
    cluster: EtcdCluster, learner: Member
) -> None:
    voters = ",".join(one.endpoint for one in cluster.members)
    async with opened_store(cluster.uri.replace(voters, learner.endpoint) + "&timeout=60") as store:
        with pytest.raises(StoreUnavailable, match="rpc not supported for learner"):
            await store.get("made")
