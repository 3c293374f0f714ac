"""Makes the faults of a plan happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cores.plans import plan as plans
from tests.simulation.cores.probes import Probe

if TYPE_CHECKING:
    from tests.simulation.cores.cluster import Cluster


def perform(fault: plans.Fault, cluster: Cluster) -> None:
    """The fault begins; what lasts for a while ends by itself."""
    match fault:
        case plans.Cut():
            cluster.network.cut(fault)
        case plans.Pause(_, node, seconds):
            _pause(cluster, node, seconds)
        case plans.Crash():
            _crash(cluster, fault)
        case plans.Swap():
            _swap(cluster, fault)
        case plans.StoreAway(_, seconds, applies):
            cluster.world.note("the metadata store is away")
            cluster.metadata.go_away(seconds, applies=applies)
        case plans.Touch():
            cluster.metadata.touch()
        case plans.SetBack(_, changes, seconds):
            cluster.metadata.go_back(changes)
            cluster.world.after(seconds, cluster.accept)
        case plans.WatchGap(_, client, seconds):
            cluster.world.reached(Probe.TAIL_HELD_BACK)
            cluster.metadata.hold_back(client, seconds)
        case plans.LeaseLost(_, bookie, seconds):
            _leave(cluster, bookie, seconds)
        case plans.ReadOnly(_, bookie, seconds):
            _damage(cluster, fault)
            _leave(cluster, bookie, seconds)
        case (
            plans.FailSync()
            | plans.ReadErrors()
            | plans.Full()
            | plans.SlowDisk()
            | plans.Rot()
            | plans.Wipe()
        ):
            _damage(cluster, fault)


def _leave(cluster: Cluster, bookie: str, seconds: float) -> None:
    """The bookie is no candidate for a while."""
    cluster.site.unregistered.add(bookie)
    cluster.world.after(seconds, lambda: cluster.site.unregistered.discard(bookie))


def _damage(cluster: Cluster, fault: plans.DiskFault) -> None:
    cluster.world.note("%s", fault)
    bookie = cluster.bookies[fault.bookie]
    bookie.damage(fault)
    if isinstance(fault, plans.Wipe):
        cluster.world.after(fault.seconds, bookie.restart)


def _pause(cluster: Cluster, node: str, seconds: float) -> None:
    if node in cluster.bookies:
        cluster.bookies[node].pause(seconds)
    elif node in cluster.clients:
        cluster.clients[node].pause(seconds)


def _crash(cluster: Cluster, fault: plans.Crash) -> None:
    if fault.node in cluster.bookies:
        bookie = cluster.bookies[fault.node]
        bookie.crash(fault.keeps)
        cluster.world.after(fault.seconds, bookie.restart)
    elif fault.node in cluster.clients and cluster.clients[fault.node].up:
        cluster.clients[fault.node].die()
        cluster.world.after(fault.seconds, lambda: cluster.start_client(fault.node))


def _swap(cluster: Cluster, fault: plans.Swap) -> None:
    """Each refuses the other's disk at its start, so both stay down until the disks are back in place."""
    cluster.world.reached(Probe.DISKS_SWAPPED)
    pair = [cluster.bookies[fault.bookie], cluster.bookies[fault.other]]
    for bookie in pair:
        bookie.crash()
        bookie.mount(foreign=True)

    def swap_back() -> None:
        for bookie in pair:
            bookie.mount(foreign=False)
            bookie.restart()

    cluster.world.after(fault.seconds, swap_back)
