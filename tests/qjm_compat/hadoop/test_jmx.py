"""`/jmx`: the beans that monitoring of JournalNodes reads."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from qjm_compat.hadoop.pages.node_pages import spelled
from qjm_compat.hadoop.server.call_dispatcher import INTERVAL_SECONDS, MeanTime
from tests.qjm_compat.hadoop.nodes import Nodes, active, on_a_node

SECONDS_MAX = 60
"""No call takes so long here."""

PREFIX = "Hadoop:service=JournalNode,name="


async def beans(nodes: Nodes, query: str | None = None) -> dict[str, dict[str, Any]]:
    """The beans by their names, without what all names begin with."""
    url = f"http://{nodes.node.http_address}/jmx"
    params = {} if query is None else {"qry": query}
    async with aiohttp.ClientSession() as session, session.get(url, params=params) as reply:
        assert (reply.status, reply.content_type) == (200, "application/json")
        found = (await reply.json())["beans"]
    return {bean["name"].removeprefix(PREFIX): bean for bean in found}


async def test_a_journals_bean_counts_under_hadoops_names(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        writer = await active(nodes)
        bean = (await beans(nodes))["Journal-ns1"]
        assert (bean["tag.Context"], bean["tag.JournalId"]) == ("dfs", "ns1")
        assert bean["tag.Hostname"] == socket.gethostname()
        assert (bean["BatchesWritten"], bean["TxnsWritten"], bean["LastWrittenTxId"]) == (3, 4, 4)
        assert (bean["LastWriterEpoch"], bean["LastPromisedEpoch"], bean["CurrentLagTxns"]) == (1, 1, 0)
        assert bean["BytesWritten"] > 0 and bean["LastJournalTimestamp"] > 0
        for seconds in (60, 300, 3600):
            assert bean[f"Syncs{seconds}sNumOps"] == 3
            assert bean[f"Syncs{seconds}s99thPercentileLatencyMicros"] > 0
        await writer.write(3, 5, 5, committed=4)
        assert (await beans(nodes))["Journal-ns1"]["BatchesWritten"] == 4


async def test_a_node_tells_its_address_and_whose_edits_it_holds(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        info = (await beans(nodes))["JournalNodeInfo"]
        assert json.loads(info["JournalsStatus"]) == {}
        assert info["HostAndPort"] == nodes.node.address
        writer = await active(nodes)
        info = (await beans(nodes))["JournalNodeInfo"]
        assert json.loads(info["JournalsStatus"]) == {"ns1": {"Formatted": "true"}}
        assert info["ClusterIds"] == ["CID-x"]
        assert info["StorageInfos"] == ["{ClusterId=CID-x, CreationTime=0, NamespaceId=7, LayoutVersion=-67}"]
        assert info["Version"].startswith("bookledger ")
        await writer.finalize(3, 4)
        await writer.ask("doPreUpgrade")  # after which a JournalNode counts as not formatted
        info = (await beans(nodes))["JournalNodeInfo"]
        assert json.loads(info["JournalsStatus"]) == {"ns1": {"Formatted": "false"}}
        assert info["StorageInfos"] == []


async def test_calls_are_counted_by_port_and_by_method(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        port = nodes.node.address.rpartition(":")[2]
        found = await beans(nodes)
        total, each = found[f"RpcActivityForPort{port}"], found[f"RpcDetailedActivityForPort{port}"]
        assert total["tag.port"] == each["tag.port"] == port
        assert total["NumOpenConnections"] == 1
        assert (each["JournalNumOps"], each["StartLogSegmentNumOps"], each["FormatNumOps"]) == (3, 2, 1)
        for kind in ("Queue", "Processing"):
            assert total[f"Rpc{kind}TimeNumOps"] == sum(
                count for name, count in each.items() if name.endswith("NumOps")
            )
            assert total[f"Rpc{kind}TimeAvgTime"] > 0
        assert 0 < each["JournalAvgTime"] < 1000 * SECONDS_MAX and each["FormatAvgTime"] > 0


async def test_beans_are_spelled_as_hadoop_spells_them(tmp_path: Path) -> None:
    """Scripts look for `"CurrentLagTxns" : 0` in a line of its own."""
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        url = f"http://{nodes.node.http_address}/jmx?qry={PREFIX}Journal-ns1"
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            lines = (await reply.text()).splitlines()
    assert lines[:3] == ["{", '  "beans" : [ {', f'    "name" : "{PREFIX}Journal-ns1",']
    assert '    "CurrentLagTxns" : 0,' in lines
    assert lines[-2:] == ["  } ]", "}"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"beans": []}, '{\n  "beans" : [ ]\n}'),
        ({"a": 1, "b": "ü\n"}, '{\n  "a" : 1,\n  "b" : "ü\\n"\n}'),
        ({"a": [1, 2.5, None]}, '{\n  "a" : [ 1, 2.5, null ]\n}'),
        ({"a": {}}, '{\n  "a" : { }\n}'),
        ([{"a": True}, {"b": 2}], '[ {\n  "a" : true\n}, {\n  "b" : 2\n} ]'),
        ({"x": [{"a": [{"b": 1}]}]}, '{\n  "x" : [ {\n    "a" : [ {\n      "b" : 1\n    } ]\n  } ]\n}'),
    ],
)
def test_values_are_spelled_as_jackson_does(value: object, text: str) -> None:
    assert spelled(value) == text
    assert json.loads(text) == value


def test_a_mean_is_that_of_the_last_interval_with_calls() -> None:
    mean = MeanTime()
    assert mean.millis(0.0) == 0
    mean.add(0.002, 100.0)
    mean.add(0.004, 101.0)
    assert mean.millis(102.0) == pytest.approx(3)
    mean.add(0.050, 100.0 + INTERVAL_SECONDS)  # of the next one
    assert mean.millis(100.0 + INTERVAL_SECONDS) == pytest.approx(3)
    assert mean.millis(100.0 + 2 * INTERVAL_SECONDS) == pytest.approx(50)
    assert mean.millis(1000.0) == pytest.approx(50), "as Hadoop's stands while nobody calls"


QUERIES: dict[str, set[str]] = {
    "Hadoop:service=JournalNode,name=Journal-ns1": {"Journal-ns1"},
    "Hadoop:service=JournalNode,name=JournalNodeInfo": {"JournalNodeInfo"},
    "Hadoop:name=JournalNodeInfo,service=JournalNode": {"JournalNodeInfo"},
    "Hadoop:service=JournalNode,name=Journal-*": {"Journal-ns1"},
    "Hadoop:service=JournalNode,name=Journal-ns?": {"Journal-ns1"},
    "*:name=Journal*,*": {"Journal-ns1", "JournalNodeInfo"},
    "Hadoop:service=JournalNode,name=Journal-[n]s1": set(),
    "Hadoop:service=JournalNode": set(),
    "Hadoop:service=NameNode,*": set(),
    "java.lang:type=Memory": set(),
    "nonsense": set(),
}


async def test_a_query_is_a_pattern_of_names(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        for query, found in QUERIES.items():
            assert set(await beans(nodes, query)) == found, query
        everything = set(await beans(nodes))
        assert len(everything) == 4
        for query in ("", "*:*", "Hadoop:*", "Hadoop:service=JournalNode,*"):
            assert set(await beans(nodes, query)) == everything, query
