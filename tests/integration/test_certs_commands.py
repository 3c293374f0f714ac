"""`bookledger certs`, and bookies and commands that run with what it makes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, started
from tests.support.command_line import bookledger

ADDRESS = "127.0.0.1"


def command(
    *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = bookledger(*arguments, stdin=stdin.encode(), env={**os.environ, **(environment or {})})
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def made(*arguments: str | Path) -> dict[str, object]:
    done = command("certs", *map(str, arguments), "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def refused(*arguments: str | Path) -> str:
    done = command("certs", *map(str, arguments))
    assert done.returncode in (1, 2) and not done.stdout, done
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    made("init", tmp_path / "authority")
    return tmp_path / "authority"


def test_an_authority_is_made_once_and_its_key_is_for_its_owner_alone(authority: Path) -> None:
    assert sorted(path.name for path in authority.iterdir()) == ["ca-key.pem", "ca.pem"]
    assert stat.S_IMODE((authority / "ca-key.pem").stat().st_mode) == 0o600
    before = (authority / "ca.pem").read_bytes()
    assert "already holds an authority" in refused("init", authority)
    assert (authority / "ca.pem").read_bytes() == before


def test_a_certificate_is_issued_shown_and_renewed_with_the_same_names(
    authority: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "b1"
    names = ["urn:bookledger:bookie:b1", "h1.example", ADDRESS]
    issued = made(
        "issue", "bookie:b1", mine, "--authority", authority, "--host=h1.example", f"--host={ADDRESS}"
    )
    assert issued["names"] == names
    assert stat.S_IMODE((mine / "key.pem").stat().st_mode) == 0o600
    key = (mine / "key.pem").read_bytes()
    assert made("show", mine) == issued
    assert made("renew", mine, "--authority", authority, "--days=3")["names"] == names
    assert (mine / "key.pem").read_bytes() != key
    assert sorted(path.name for path in mine.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_a_renewal_keeps_the_other_authorities_that_are_trusted(authority: Path, tmp_path: Path) -> None:
    other, mine = tmp_path / "other", tmp_path / "mine"
    made("init", other, "--name=other")
    made("issue", "client:a", mine, "--authority", authority)
    with (mine / "ca.pem").open("ab") as trusted:
        trusted.write((other / "ca.pem").read_bytes())
    for by in (other, authority):
        made("renew", mine, "--authority", by)
        trusted_now = (mine / "ca.pem").read_text()
        assert trusted_now.count("BEGIN CERTIFICATE") == 2
        assert all((one / "ca.pem").read_text() in trusted_now for one in (authority, other))
        made("show", mine)


@pytest.mark.parametrize("host", ["", "a b", "-a", "a..b", "fe80::1%eth0", "[::1", "a" * 64 + ".b", "ä"])
def test_what_is_no_host_is_refused(authority: Path, tmp_path: Path, host: str) -> None:
    said = refused("issue", "bookie:b1", tmp_path / "b1", "--authority", authority, f"--host={host}")
    assert "--host" in said and not (tmp_path / "b1").exists()


def test_an_address_may_stand_in_brackets(authority: Path, tmp_path: Path) -> None:
    issued = made(
        "issue", "bookie:b1", tmp_path / "b1", "--authority", authority, "--host=[::1]", "--host=*.h.example"
    )
    assert issued["names"] == ["urn:bookledger:bookie:b1", "::1", "*.h.example"]


def test_what_cannot_be_issued_is_refused_and_nothing_is_changed(authority: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    by = ("--authority", authority)
    assert "needs --host" in refused("issue", "bookie:b1", mine, *by)
    assert "roles are" in refused("issue", "king:a", mine, *by)
    assert "ASCII" in refused("issue", "client:ä", mine, *by)
    assert "ASCII" in refused("issue", "client:a", mine, *by, "--host=ä")
    assert not mine.exists()
    assert "contains no usable certificate authority" in refused(
        "issue", "client:a", mine, "--authority", tmp_path
    )
    made("issue", "client:a", mine, *by)
    before = (mine / "cert.pem").read_bytes()
    assert "already contains a certificate" in refused("issue", "client:a", mine, *by)
    (authority / "ca-key.pem").chmod(0o644)
    assert "chmod 600" in refused("renew", mine, *by)
    assert (mine / "cert.pem").read_bytes() == before
    (mine / "key.pem").unlink()
    assert "key.pem: No such file" in refused("show", mine)


@pytest.fixture
def uri(tmp_path: Path, authority: Path) -> Iterator[str]:
    """A bookie with certificates, which serves; in the same place those of an admin, a client and a reader."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    by = ("--authority", authority)
    made("issue", "bookie:b1", tmp_path / "b1-certs", *by, f"--host={ADDRESS}")
    for role in ("admin", "client", "reader"):
        made("issue", f"{role}:ada", tmp_path / role, *by)
    bookie = BookieProcess("b1", tmp_path / "b1", uri, options=[f"--certs={tmp_path / 'b1-certs'}"])
    with started([bookie]):
        yield uri


def test_commands_take_their_certificates_from_the_environment(uri: str, tmp_path: Path) -> None:
    def as_(role: str) -> dict[str, str]:
        return {"BOOKLEDGER_METADATA": uri, "BOOKLEDGER_CERTS": str(tmp_path / role)}

    appended = command("ledger", "append", "--ensemble=1", stdin="a\nb\n", environment=as_("client"))
    assert appended.returncode == 0, appended.stderr
    read = command("ledger", "read", "1", environment=as_("reader"))
    assert read.returncode == 0 and read.stdout.count("\n") == 2, read
    forged = command("ledger", "append", "--ensemble=1", stdin="x\n", environment=as_("reader"))
    assert forged.returncode == 1 and "reader:ada may not append entries" in forged.stderr
    status = command("bookie", "gc", "status", "--all", environment=as_("admin"))
    assert status.returncode == 0, status.stderr
    not_mine = command("bookie", "gc", "status", "--all", environment=as_("client"))
    assert not_mine.returncode == 1 and "that takes a certificate of role admin" in not_mine.stderr
    without = command("ledger", "read", "1", environment={"BOOKLEDGER_METADATA": uri})
    assert without.returncode == 1 and "BOOKLEDGER_CERTS" in without.stderr


def test_plain_text_is_for_one_machine_unless_it_is_asked_for(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    bookie = BookieProcess("b1", tmp_path / "b1", uri, options=["--host=0.0.0.0", "--insecure"])
    with started([bookie]):
        assert "INSECURE: any client that reaches 0.0.0.0" in bookie.log.read_text()
    places = (f"--metadata={uri}", f"--data={tmp_path / 'b1'}", "--port=0")
    done = command("bookie", "run", *places, "--host=0.0.0.0")
    assert done.returncode == 1 and "pass --certs" in done.stderr and "--insecure" in done.stderr
    standalone = command("standalone", f"--data={tmp_path / 'alone'}", "--port=0", "--host=0.0.0.0")
    assert standalone.returncode == 1 and "--insecure" in standalone.stderr


def test_a_bookie_whose_certificates_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    bookie = BookieProcess("b1", tmp_path / "b1", uri)
    bookie.format()
    empty = tmp_path / "empty"
    empty.mkdir()
    places = (f"--metadata={uri}", f"--data={tmp_path / 'b1'}", "--port=0", f"--certs={empty}")
    done = command("bookie", "run", *places)
    assert done.returncode == 1 and "ca.pem: No such file" in done.stderr
    assert os.listdir(empty) == []
