"""Stock Hadoop beside the tests: what `make hadoop` fetches, as processes on loopback.

Mark a test with `needs_hadoop`, or with `each_version` where it takes a `version`.
"""

from tests.support.hadoop.daemons import Daemon, JournalNode, NameNode
from tests.support.hadoop.jars import VERSIONS, each_version, needs_hadoop
from tests.support.hadoop.tools import HadoopFailed, dfsadmin, fs, oev, xml_to_edits

__all__ = [
    "Daemon",
    "HadoopFailed",
    "JournalNode",
    "NameNode",
    "VERSIONS",
    "dfsadmin",
    "each_version",
    "fs",
    "needs_hadoop",
    "oev",
    "xml_to_edits",
]
