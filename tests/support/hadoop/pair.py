"""Two NameNodes that share their edits: one is active, the other stands by."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.etcd import free_port
from tests.support.hadoop.daemons import START_SECONDS_MAX, NameNode
from tests.support.hadoop.driver import Driver
from tests.support.hadoop.tools import HadoopFailed
from tests.support.waiting import until

SERVICE = "pair"
NAMES = ("nn1", "nn2")
PROXY = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"


class PairedNameNode(NameNode):
    """One of two. It starts as standby, and serves when it says so."""

    def _serves(self) -> bool:
        """Its page answers. Calls are taken later, which `Pair.make_active` waits for."""
        return self.jmx("service=NameNode,name=NameNodeStatus") is not None

    def bootstrap(self) -> None:
        """Takes the other's image, in place of all that is here."""
        shutil.rmtree(self.current.parent, ignore_errors=True)
        self.command("-bootstrapStandby", "-nonInteractive")

    def last_txid(self) -> int:
        """The last transaction in its namespace; 0 where it does not say."""
        return self._transaction("LastAppliedOrWrittenTxId")

    def checkpoint_txid(self) -> int:
        """The last transaction in its latest image; 0 where it does not say."""
        return self._transaction("MostRecentCheckpointTxId")

    def _transaction(self, what: str) -> int:
        info = self.jmx("service=NameNode,name=NameNodeInfo")
        return int(json.loads(info["JournalTransactionInfo"])[what]) if info is not None else 0


@dataclass
class Pair:
    """Both, by their names, and whom commands go through."""

    nodes: dict[str, PairedNameNode]
    driver: Driver
    active: str = NAMES[0]

    @property
    def standby(self) -> str:
        return NAMES[1 - NAMES.index(self.active)]

    def make_active(self, name: str) -> None:
        """Asked for until the NameNode takes calls; the other one may be dead."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.driver.active(SERVICE, name)
                break
            except HadoopFailed:
                if time.monotonic() > deadline:
                    raise
        self.active = name

    def fail_over(self) -> None:
        """The active one stands back, the other one takes over. Both live."""
        self.driver.standby(SERVICE, self.active)
        self.make_active(self.standby)

    def fail_over_dead(self) -> None:
        """The active one dies as in a power cut; the other one takes over, and the dead one comes back beside it."""
        dead = self.nodes[self.active]
        dead.kill()
        self.make_active(self.standby)
        dead.start()

    def await_standby(self) -> None:
        """Returns once the standby has all that the active one has, where nobody writes."""
        until(lambda: self.nodes[self.standby].last_txid() >= self.nodes[self.active].last_txid() > 0)


def made_pair(
    version: str, directory: Path, shared: str, settings: Mapping[str, str] | None = None
) -> dict[str, PairedNameNode]:
    """Two NameNodes that were not formatted yet; `shared` is where their edits are."""
    ports = {name: (free_port(), free_port()) for name in NAMES}
    common = {**settings_of(shared, ports), **(settings or {})}
    return {
        name: PairedNameNode(
            version, directory / name, ports[name], settings={**common, "dfs.ha.namenode.id": name}
        )
        for name in NAMES
    }


@contextmanager
def running_pair(
    version: str, directory: Path, shared: str, settings: Mapping[str, str] | None = None
) -> Iterator[Pair]:
    """`made_pair` and `started`."""
    with started(made_pair(version, directory, shared, settings), directory) as pair:
        yield pair


@contextmanager
def started(nodes: dict[str, PairedNameNode], directory: Path) -> Iterator[Pair]:
    """The first one active, after a format if it has none yet, the second one a standby with its image."""
    first, second = nodes.values()
    with first, Driver(first, directory) as driver:
        pair = Pair(nodes, driver)
        pair.make_active(NAMES[0])
        second.bootstrap()
        with second:
            yield pair


def settings_of(shared: str, ports: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """What both are configured with; `shared` is where the edits are."""
    settings = {
        "fs.defaultFS": f"hdfs://{SERVICE}",
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": ",".join(NAMES),
        f"dfs.client.failover.proxy.provider.{SERVICE}": PROXY,
        "dfs.namenode.shared.edits.dir": shared,
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        "dfs.ha.tail-edits.period": "1",
        "dfs.ha.log-roll.period": "-1",
        "dfs.client.failover.sleep.base.millis": "20",
        "dfs.client.failover.sleep.max.millis": "200",
        "dfs.client.failover.max.attempts": "200",
    }
    for name, (rpc, http) in ports.items():
        settings[f"dfs.namenode.rpc-address.{SERVICE}.{name}"] = f"127.0.0.1:{rpc}"
        settings[f"dfs.namenode.http-address.{SERVICE}.{name}"] = f"127.0.0.1:{http}"
    return settings
