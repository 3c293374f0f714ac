"""Real NameNodes keep their edits at our JournalNodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen
from xml.etree import ElementTree

import pytest

from tests.support.command_line import succeeds
from tests.support.hadoop import JournalNode, NameNode, dfsadmin, each_version, fs, oev
from tests.support.journal_node_daemons import JournalNodeDaemon, journal_nodes, qjournal


@pytest.fixture
def nodes(uri: str, tmp_path: Path) -> Iterator[list[JournalNodeDaemon]]:
    with journal_nodes(uri, tmp_path) as nodes:
        yield nodes


def name_node(version: str, directory: Path, addresses: list[str], journal_id: str) -> NameNode:
    return NameNode(version, directory / "nn", edits_dir=qjournal(addresses, journal_id))


def directories(node: NameNode) -> list[str]:
    """What is at the root of its namespace."""
    listed = fs(node, "-ls", "/")
    return sorted(line.split()[-1] for line in listed.splitlines() if "/" in line)


@pytest.mark.long
@each_version
def test_a_name_node_that_is_killed_finds_its_edits(
    version: str, nodes: list[JournalNodeDaemon], tmp_path: Path
) -> None:
    with name_node(version, tmp_path, [n.address for n in nodes], f"alone-{version}") as node:
        fs(node, "-mkdir", "/a")
        dfsadmin(node, "-rollEdits")
        fs(node, "-mkdir", "/b")
        node.kill()
        node.start()
        assert directories(node) == ["/a", "/b"]
        fs(node, "-mkdir", "/c")
        nodes[0].kill()
        fs(node, "-mkdir", "/d")
        dfsadmin(node, "-rollEdits")
        node.kill()
        node.start()
        assert directories(node) == ["/a", "/b", "/c", "/d"]
        nodes[0].start()
        dfsadmin(node, "-rollEdits")
        nodes[1].kill()
        fs(node, "-mkdir", "/e")
        node.kill()
        node.start()
        assert directories(node) == ["/a", "/b", "/c", "/d", "/e"]
        check_with_the_viewer(version, nodes[2], f"alone-{version}", tmp_path)


def check_with_the_viewer(version: str, node: JournalNodeDaemon, journal_id: str, tmp_path: Path) -> None:
    """Hadoop's own reads every segment that is served, each transaction once and in order."""
    url = f"http://{node.http_address}/getJournal?jid={journal_id}&segmentTxId="
    txid, seen = 1, 0
    while True:
        try:
            with urlopen(f"{url}{txid}") as reply:
                file = tmp_path / f"segment-{txid}"
                file.write_bytes(reply.read())
        except HTTPError as error:
            if error.code != 404:
                raise
            break
        records = ElementTree.fromstring(oev(version, file)).findall("RECORD")
        txids = [int(one.findtext("DATA/TXID") or 0) for one in records]
        assert txids == list(range(txid, txid + len(txids)))
        txid, seen = txids[-1] + 1, seen + 1
    assert seen >= 5


@pytest.mark.long
@each_version
@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_one_stock_journal_node_beside_two_of_ours(
    version: str, left_out: int, uri: str, tmp_path: Path
) -> None:
    """Each is away in turn while edits are written; then it is recovered from those that were there."""
    with ExitStack() as stack:
        stock = stack.enter_context(JournalNode(version, tmp_path / "stock"))
        peer = f"127.0.0.1:{stock.http_port}"
        ours = stack.enter_context(journal_nodes(uri, tmp_path, 2, "--peer", peer))
        everybody: list[JournalNode | JournalNodeDaemon] = [stock, *ours]
        journal = f"mixed-{version}-{left_out}"
        node = stack.enter_context(name_node(version, tmp_path, [n.address for n in everybody], journal))
        fs(node, "-mkdir", "/a")
        everybody[left_out].kill()
        fs(node, "-mkdir", "/b")
        node.kill()
        everybody[left_out].start()
        another = everybody[(left_out + 1) % 3]
        another.kill()
        node.start()
        assert directories(node) == ["/a", "/b"]
        fs(node, "-mkdir", "/c")
        another.start()
        dfsadmin(node, "-rollEdits")
        everybody[(left_out + 2) % 3].kill()
        fs(node, "-mkdir", "/d")
        node.kill()
        node.start()
        assert directories(node) == ["/a", "/b", "/c", "/d"]


@pytest.mark.long
@each_version
def test_a_name_node_moves_from_stock_journal_nodes_to_ours_and_back(
    version: str, uri: str, tmp_path: Path
) -> None:
    """As docs/journals.md has it: the NameNode is down meanwhile, and keeps its image."""
    journal, acceptors = f"move-{version}", [f"--acceptor=jn{n}" for n in (1, 2, 3)]
    stock = [JournalNode(version, tmp_path / f"stock{n}") for n in range(3)]
    with ExitStack() as stack:
        for one in stock:
            stack.enter_context(one)
        node = stack.enter_context(name_node(version, tmp_path, [n.address for n in stock], journal))
        fs(node, "-mkdir", "/a")
        node.stop()
        for one in stock:
            one.stop()
        source = stock[0].current(journal)
        succeeds("journal", "import", journal, str(source), "--metadata", uri, *acceptors)
        with journal_nodes(uri, tmp_path) as ours:
            node = NameNode(
                version,
                tmp_path / "nn",
                (node.port, node.http_port),
                edits_dir=qjournal([n.address for n in ours], journal),
            )
            with node:
                assert directories(node) == ["/a"]
                fs(node, "-mkdir", "/b")
        for one in stock:
            target = one.current(journal)
            for left in [*target.glob("edits_*"), *target.glob("committed-txid"), *target.glob("paxos/*")]:
                left.unlink()
            succeeds("journal", "recover", journal, "--metadata", uri, *acceptors)
            succeeds("journal", "export", journal, str(target), "--metadata", uri, *acceptors)
            one.start()
        node = NameNode(
            version,
            tmp_path / "nn",
            (node.port, node.http_port),
            edits_dir=qjournal([n.address for n in stock], journal),
        )
        with node:
            assert directories(node) == ["/a", "/b"]
            fs(node, "-mkdir", "/c")
