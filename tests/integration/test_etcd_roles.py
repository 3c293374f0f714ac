"""Users of etcd with the roles that `bookledger metadata roles` makes: each can do its work, and not another's."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.wire.trust.roles import Role
from bookledger.cli.processes import BookieProcess
from ledgers import LedgerClient, LedgerError
from metadata import keys, opened_store
from metadata.errors import MetadataError
from metadata.etcd.etcd_roles import ACCESS, etcdctl_commands
from qjm_compat import NamespaceInfo, QuorumJournalManager
from tests.support.command_line import bookledger, succeeds
from tests.support.etcd import EtcdServer
from tests.support.etcd_program import find_etcdctl
from tests.support.journal_node_daemons import JournalNodeDaemon
from tests.support.secrets import password_file

ROOT_PASSWORD = "root's"
PREFIX = "prod"


def etcdctl(etcd: EtcdServer, *arguments: str) -> None:
    program = find_etcdctl()
    if program is None:
        pytest.skip("there is no etcdctl")
    environment = {**os.environ, "ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": etcd.endpoint}
    done = subprocess.run(
        [program, *arguments], env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, (arguments, done.stderr)


@pytest.fixture
def uris(own_etcd: EtcdServer, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user for each role, and what each names the metadata by. A bookie serves."""
    plain = f"etcd://{own_etcd.endpoint}/{PREFIX}"
    for line in succeeds("metadata", "roles", f"--metadata={plain}").decode().splitlines():
        program, *arguments = line.split()
        assert program == "etcdctl"
        etcdctl(own_etcd, *arguments)
    uris: dict[str, str] = {}
    for role in ACCESS:
        secret = password_file(tmp_path / f"{role}.password", f"{role}-password\n")
        etcdctl(own_etcd, "user", "add", f"{role}:{role}-password")
        etcdctl(own_etcd, "user", "grant-role", role, f"{PREFIX}-{role}")
        uris[role] = f"{plain}?user={role}&password_file={secret}"
    own_etcd.enable_auth("root", ROOT_PASSWORD)
    BookieProcess("b1", tmp_path / "b1", uris["admin"]).format()
    bookie = BookieProcess("b1", tmp_path / "b1", uris["bookie"])
    try:
        bookie.start()
        yield uris
    finally:
        bookie.stop()


def test_every_role_of_a_certificate_has_one_in_etcd() -> None:
    assert ACCESS.keys() == {role.value for role in Role}


def test_each_role_can_do_its_work(uris: dict[str, str], tmp_path: Path) -> None:
    with LedgerClient(uris["client"]) as client:
        with client.create_ledger(ensemble_size=1) as writer:
            writer.append(b"a")
        open_one = client.create_ledger(ensemble_size=1)
        open_one.append(b"b")
        assert client.open_ledger(open_one.ledger_id).is_closed
        gone = client.create_ledger(ensemble_size=1)
        client.delete_ledger(gone.ledger_id)
    with LedgerClient(uris["reader"]) as reader:
        assert [e.payload for e in reader.open_ledger(writer.ledger_id, recovery=False).read()] == [b"a"]
        assert next(reader.open_ledger(writer.ledger_id, recovery=False).tail()).payload == b"a"
    with QuorumJournalManager(uris["journal"], "ns1") as journal:
        journal.format(NamespaceInfo(1, "CID-roles"))
        journal.recover_unfinalized_segments()
    with JournalNodeDaemon(uris["journal"], "jn1", tmp_path) as daemon:
        assert daemon.stop() == 0
    for role, *command in (
        ("admin", "bookie", "drain", "b1", "--cancel"),
        ("client", "metadata", "check"),
        ("console", "cluster", "status"),
        ("console", "ledger", "list"),
        ("admin", "bookie", "gc", "run", "--all"),
    ):
        done = bookledger(*command, f"--metadata={uris[role]}")
        assert b"denied" not in done.stderr + done.stdout and done.returncode in (0, 1), (command, done)


DENIED: tuple[tuple[str, str], ...] = (
    ("reader", keys.ledger(1)),
    ("reader", keys.NEXT_LEDGER_ID),
    ("console", keys.ledger(1)),
    ("client", keys.bookie("b1")),
    ("client", keys.cookie("b1")),
    ("client", keys.order("b1")),
    ("client", keys.AUDITOR),
    ("client", keys.journal_state("ns1", "main")),
    ("journal", keys.order("b1")),
    ("auditor", keys.bookie("b1")),
    ("auditor", keys.journal_state("ns1", "main")),
    ("bookie", keys.journal_state("ns1", "main")),
    ("bookie", keys.order("b1")),
    ("client", keys.RESTORED),
    ("journal", keys.RESTORED),
    ("auditor", keys.RESTORED),
    ("bookie", keys.LAYOUT),
    ("bookie", keys.cookie("b2")),
)


async def test_no_role_can_write_what_is_not_its_own(uris: dict[str, str]) -> None:
    for role, key in DENIED:
        async with opened_store(uris[role]) as store:
            with pytest.raises(MetadataError, match="permission denied"):
                await store.create(key, b"forged")
    with LedgerClient(uris["reader"]) as reader, pytest.raises(LedgerError, match="permission denied"):
        reader.create_ledger(ensemble_size=1)


def test_prefixes_that_are_alike_have_roles_of_their_own() -> None:
    def roles(prefix: str) -> set[str]:
        lines = etcdctl_commands(f"etcd://127.0.0.1:2379/{prefix}")
        return {shlex.split(line)[-1] for line in lines if " role add " in line}

    assert len(roles("a/b") | roles("a-b") | roles("a_b")) == 3 * len(ACCESS)


def test_roles_are_for_etcd(tmp_path: Path) -> None:
    done = bookledger("metadata", "roles", f"--metadata=sqlite://{tmp_path}/m.db")
    assert done.returncode == 1 and b"roles are for etcd" in done.stderr


def test_a_bookie_may_hold_back_metadata_that_went_back(
    own_etcd: EtcdServer, uris: dict[str, str], tmp_path: Path
) -> None:
    BookieProcess("b2", tmp_path / "b2", uris["admin"]).format()
    bookie = BookieProcess("b2", tmp_path / "b2", uris["bookie"])
    own_etcd.set_aside(tmp_path / "copy")
    try:
        bookie.start()
        with (
            LedgerClient(uris["client"]) as client,
            client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2) as writer,
        ):
            writer.append(b"of a ledger that the copy does not know")
        bookie.stop()
        own_etcd.go_back(tmp_path / "copy")
        bookie.start()
        told = bookledger("ledger", "append", f"--metadata={uris['client']}", stdin=b"a\n")
        assert b"bookledger metadata check" in told.stderr, told
        told = bookledger("metadata", "check", f"--metadata={uris['client']}")
        assert b"held back since" in told.stdout and told.returncode == 1 and not told.stderr, told
        told = bookledger("metadata", "check", "--accept", "--yes", f"--metadata={uris['client']}")
        assert b"permission denied" in told.stderr and told.returncode == 1, told
    finally:
        bookie.stop()
