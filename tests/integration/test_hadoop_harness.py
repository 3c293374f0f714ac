"""The stock Hadoop beside the tests does what the tests will take for granted."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from xml.etree import ElementTree

import pytest

from qjm_compat.hadoop.pages.hadoop_json import spelled
from tests.support.etcd import free_port
from tests.support.hadoop import (
    HadoopFailed,
    JournalNode,
    NameNode,
    dfsadmin,
    each_version,
    fs,
    oev,
    xml_to_edits,
)
from tests.support.http import get


def operations(xml: str) -> list[str]:
    return [record.findtext("OPCODE", "") for record in ElementTree.fromstring(xml).iter("RECORD")]


def segment(name_node: NameNode, pattern: str) -> Path:
    [found] = name_node.current.glob(pattern)
    return found


@each_version
def test_a_name_node_that_was_killed_sees_its_namespace_again(tmp_path: Path, version: str) -> None:
    with NameNode(version, tmp_path) as name_node:
        fs(name_node, "-mkdir", "-p", "/a/b", "/c")
        fs(name_node, "-mv", "/a/b", "/c/moved")
        port, pid = name_node.port, name_node.pid
        name_node.kill()
        assert not os.path.exists(f"/proc/{pid}")
        name_node.start()
        listing = fs(name_node, "-ls", "-R", "/")
    assert name_node.port == port
    assert [line.split()[-1] for line in listing.splitlines()] == ["/a", "/c", "/c/moved"]


@each_version
def test_the_viewer_reads_what_a_name_node_wrote(tmp_path: Path, version: str) -> None:
    with NameNode(version, tmp_path) as name_node:
        fs(name_node, "-mkdir", "/a", "/ü<&")
        dfsadmin(name_node, "-rollEdits")
        fs(name_node, "-mv", "/a", "/b")
        name_node.kill()
    finished, unfinished = segment(name_node, "edits_*-*"), segment(name_node, "edits_inprogress_*")
    xml = oev(version, finished)
    assert operations(xml) == ["OP_START_LOG_SEGMENT", "OP_MKDIR", "OP_MKDIR", "OP_END_LOG_SEGMENT"]
    assert ElementTree.fromstring(xml).findtext(".//RECORD[3]//PATH") == "/ü<&"
    assert operations(oev(version, unfinished)) == ["OP_START_LOG_SEGMENT", "OP_RENAME_OLD"]
    assert "OP_MKDIR                       (  3): 2" in oev(version, finished, "stats")
    assert xml_to_edits(version, xml) == finished.read_bytes()


@each_version
def test_a_name_node_keeps_its_edits_on_a_journal_node_and_dies_without_it(
    tmp_path: Path, version: str
) -> None:
    with JournalNode(version, tmp_path / "journal") as journal_node:
        journal = f"qjournal://{journal_node.address}/ns1"
        with NameNode(version, tmp_path / "name", edits_dir=journal) as name_node:
            fs(name_node, "-mkdir", "/kept")
            dfsadmin(name_node, "-rollEdits")
            name_node.kill()
            journal_node.kill()
            journal_node.start()
            name_node.start()
            fs(name_node, "-test", "-d", "/kept")
            [finished] = journal_node.current("ns1").glob("edits_*1-*3")
            journal_node.kill()
            with pytest.raises(HadoopFailed):
                fs(name_node, "-mkdir", "/lost")
            assert name_node.await_exit() == 1
    assert operations(oev(version, finished)) == ["OP_START_LOG_SEGMENT", "OP_MKDIR", "OP_END_LOG_SEGMENT"]


@each_version
def test_a_name_node_that_does_not_start_says_why(tmp_path: Path, version: str) -> None:
    name_node = NameNode(version, tmp_path)
    with pytest.raises(HadoopFailed, match=r"Directory .* is in an inconsistent state"):
        name_node.start()
    name_node.stop()


@each_version
def test_a_journal_node_whose_port_another_has_does_not_count_as_started(
    tmp_path: Path, version: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = (other.getsockname()[1], free_port())
        with (
            pytest.raises(HadoopFailed, match="Address already in use"),
            JournalNode(version, tmp_path, ports),
        ):
            pytest.fail("it started")


@each_version
def test_what_hadoop_refuses_raises_with_its_reason(tmp_path: Path, version: str) -> None:
    with NameNode(version, tmp_path) as name_node:
        with pytest.raises(HadoopFailed, match="/there/is/no': No such file or directory"):
            fs(name_node, "-ls", "/there/is/no")
        with pytest.raises(HadoopFailed, match="-nonInteractive"):
            name_node.format()
        with pytest.raises(HadoopFailed, match="RECORD"):
            xml_to_edits(version, "<EDITS><RECORD/></EDITS>")


@each_version
def test_beans_of_a_stock_journal_node_are_spelled_as_ours(tmp_path: Path, version: str) -> None:
    with JournalNode(version, tmp_path) as journal_node:
        url = f"http://127.0.0.1:{journal_node.http_port}/jmx?qry=Hadoop:service=JournalNode,name=JournalNodeInfo"
        status, text = get(url)
    beans = json.loads(text)
    assert status == 200 and len(beans["beans"]) == 1
    assert text.strip() == spelled(beans)


@each_version
def test_what_fails_beside_a_daemon_gets_the_end_of_its_log(tmp_path: Path, version: str) -> None:
    with pytest.raises(ZeroDivisionError) as failure, JournalNode(version, tmp_path) as journal_node:
        assert 1 // 0
    assert "JournalNode" in "".join(failure.value.__notes__)
    assert journal_node.jmx("service=JournalNode,name=JournalNodeInfo") is None
