"""Hadoop's test classes that use journals, and those of their tests that say nothing about ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_HDFS = "org.apache.hadoop.hdfs."


@dataclass(frozen=True, slots=True)
class HadoopClass:
    """`methods`: of these only, all of them by default. `inapplicable`: what cannot hold here, and why; not run."""

    name: str
    is_quick: bool = False
    methods: tuple[str, ...] = ()
    inapplicable: Mapping[str, str] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        return self.name.rsplit(".", 1)[1]


CLASSES = (
    HadoopClass(_HDFS + "qjournal.client.TestEpochsAreUnique", is_quick=True),
    HadoopClass(_HDFS + "qjournal.client.TestQuorumJournalManager", is_quick=True),
    HadoopClass(_HDFS + "qjournal.TestNNWithQJM"),
    HadoopClass(_HDFS + "server.namenode.ha.TestBootstrapStandbyWithQJM"),
    HadoopClass(_HDFS + "TestRollingUpgrade"),
    HadoopClass(_HDFS + "TestRollingUpgradeRollback"),
    HadoopClass(_HDFS + "TestRollingUpgradeDowngrade"),
    HadoopClass(_HDFS + "server.namenode.TestHAWithInProgressTail"),
    HadoopClass(_HDFS + "server.namenode.ha.TestStandbyInProgressTail"),
    HadoopClass(_HDFS + "server.namenode.ha.TestObserverNode"),
    HadoopClass(
        _HDFS + "server.namenode.ha.TestDFSUpgradeWithHA",
        methods=(
            "testUpgradeWithJournalNodes",
            "testFinalizeWithJournalNodes",
            "testFinalizeFromSecondNameNodeWithJournalNodes",
            "testRollbackWithJournalNodes",
        ),
    ),
    HadoopClass(_HDFS + "qjournal.client.TestQJMWithFaults"),
)
