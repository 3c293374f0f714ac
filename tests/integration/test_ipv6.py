"""Bookies on IPv6: alone, beside IPv4, over TLS, and advertised by an address."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from bookie.addresses import check_host, is_wildcard, join_host_port, peer_of, split_host_port
from bookie.config import check_advertised
from bookie.wire.data import sockets
from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig, LedgerClient
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.journals import write_segment
from tests.support.command_line import bookledger, succeeds
from tests.support.etcd import EtcdServer, free_port
from tests.support.journal_node_daemons import JournalNodeDaemon, qjournal


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


on_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


@on_ipv6
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ledgers_are_written_and_read_on_ipv6_alone(tmp_path: Path, host: str) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri, options=("--host", host)) as bookies:
        with LedgerClient(uri) as client:
            with client.create_ledger() as writer:
                writer.append(b"a")
            assert [entry.payload for entry in client.open_ledger(writer.ledger_id)] == [b"a"]
            addresses = {one.address for one in client.list_bookies()}
        assert addresses == {f"[::1]:{bookie.port}" for bookie in bookies}
        done = bookledger("bookie", "gc", "status", "--all", f"--metadata={uri}", "--json")
        assert done.returncode == 0 and len(done.stdout.splitlines()) == 3, done
        status = bookledger("cluster", "status", f"--metadata={uri}", "--json")
        assert {row["address"] for row in json.loads(status.stdout)["bookies"]} == addresses


@on_ipv6
def test_the_metadata_is_in_an_etcd_on_ipv6(tmp_path: Path) -> None:
    with EtcdServer(tmp_path, host="[::1]") as etcd:
        uri = f"etcd://{etcd.endpoint}/test"
        with bookie_processes(3, tmp_path, uri, options=("--host", "::1")), LedgerClient(uri) as client:
            with client.create_ledger() as writer:
                writer.append(b"a")
            assert [entry.payload for entry in client.open_ledger(writer.ledger_id)] == [b"a"]
        status = bookledger("cluster", "status", f"--metadata={uri}", "--json")
        assert f"[::1]:{etcd.port}" in json.loads(status.stdout)["metadata"]["members"]


@on_ipv6
async def test_journal_nodes_on_ipv6_are_written_and_copied_from(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri, options=("--host", "::1")), ExitStack() as stack:
        nodes = [JournalNodeDaemon(uri, name, tmp_path, "--ensemble=1") for name in ("jn1", "jn2", "jn3")]
        for node in nodes:
            node.address = node.http_address = "[::1]:0"
            stack.enter_context(node)
        addresses = [node.address for node in nodes]
        namespace = NamespaceInfo(7, "CID-x", layout_version=-63)
        async with QuorumJournalManager(qjournal(addresses, "six"), namespace=namespace) as manager:
            await manager.format(namespace)
            await manager.recover_unfinalized_segments()
            await write_segment(manager, 1, 3)
            (stream,) = await manager.select_input_streams()
            assert [batch.last_txid async for batch in stream.batches()] == [3]


@on_ipv6
def test_a_bookie_on_all_addresses_is_reached_over_both(tmp_path: Path) -> None:
    uri, port = f"sqlite://{tmp_path}/metadata.db", free_port()
    options = ("--host", "::", "--port", str(port), "--insecure", "--advertise", "::1")
    with bookie_processes(1, tmp_path, uri, options=options):
        for host in ("::1", "127.0.0.1"):
            socket.create_connection((host, port)).close()
        with LedgerClient(uri) as client:
            assert [one.address for one in client.list_bookies()] == [f"[::1]:{port}"]
            with client.create_ledger(ensemble_size=1) as writer:
                writer.append(b"a")


@on_ipv6
def test_ipv6_and_tls(tmp_path: Path) -> None:
    uri, authority = f"sqlite://{tmp_path}/metadata.db", str(tmp_path / "authority")
    for arguments in (
        ("init", authority),
        ("issue", "bookie:bookie-1", str(tmp_path / "b"), "--authority", authority, "--host", "::1"),
        ("issue", "client:app", str(tmp_path / "c"), "--authority", authority),
    ):
        succeeds("certs", *arguments)
    options = ("--host", "::1", "--certs", str(tmp_path / "b"))
    config = ClientConfig(certificates=str(tmp_path / "c"))
    with bookie_processes(1, tmp_path, uri, options=options), LedgerClient(uri, config=config) as client:
        with client.create_ledger(ensemble_size=1) as writer:
            writer.append(b"a")
        assert [entry.payload for entry in client.open_ledger(writer.ledger_id)] == [b"a"]


@on_ipv6
def test_a_port_that_is_taken_is_told_with_brackets(tmp_path: Path) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            sockets.bound("::1", port)
        uri = f"sqlite://{tmp_path}/metadata.db"
        for arguments in (("format", "--id", "b1"), ("run", "--host", "::1", "--port", str(port))):
            done = bookledger("bookie", *arguments, f"--data={tmp_path}/b1", f"--metadata={uri}")
        assert done.returncode == 1 and f"cannot listen on [::1]:{port}".encode() in done.stderr, done


@pytest.mark.parametrize("host", ["b1", "10.0.0.1", "2001:db8::1", "::1"])
def test_host_and_port_are_told_apart_again(host: str) -> None:
    assert split_host_port(join_host_port(host, 3181)) == (host, 3181)


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::1", "::1"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_limits_for_a_peer_count_the_prefix_of_an_ipv6_address(host: str, peer: str) -> None:
    """Whoever has one address has 2⁶⁴."""
    assert peer_of(host) == peer


UNREACHABLE = {
    "not a host name or address": ("", "b1,b2", "b1 b2"),
    "has a port": ("b1:3181", "[::1]:3181"),
    "a URL": ("http://x",),
    "every address": ("0.0.0.0", "0", "0x0", "0.0", "*", "::", "[::]", "0:0::0"),
}


def test_an_ipv6_address_is_advertised_and_what_clients_could_not_reach_is_not() -> None:
    for host in ("::1", "[2001:db8::1]", "2001:db8::1"):
        check_advertised(host)
    for why, hosts in UNREACHABLE.items():
        for host in hosts:
            with pytest.raises(ValueError, match=why):
                check_advertised(host)


@pytest.mark.parametrize("host", ["::1", "[::1]", "fe80::1%eth0", "b1", "127.0.0.1", "0.0.0.0", "::", ""])
def test_a_host_alone_is_listened_on(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.1", "::1", "::ffff:1", "b0", "localhost", ""])
def test_what_names_one_address_is_no_wildcard(host: str) -> None:
    assert not is_wildcard(host)
