"""No password and no key stands in what Spark prints, logs, plans or keeps for its history."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient
from tests.spark.conftest import events_in
from tests.support.etcd import EtcdServer
from tests.support.secrets import password_file

PASSWORD = "Tr0ub4dor-and-3-nobody-else"
ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_secrets_reach_executors_and_are_seen_nowhere(tls_etcd: EtcdServer, tmp_path: Path) -> None:
    authority = tls_etcd.certificate
    certificate, key = authority.with_name("cert.pem"), authority.with_name("key.pem")
    uri = f"etcds://{tls_etcd.endpoint}/prod?ca_cert={authority}&cert_cert={certificate}&cert_key={key}"
    password_file(tmp_path / "password", PASSWORD)
    (tmp_path / "events").mkdir()
    with bookie_processes(1, tmp_path, uri):
        good, doomed = (str(write(uri)) for _ in range(2))
        said = run_jobs(uri, str(tmp_path / "password"), good, doomed, str(tmp_path / "events"))
    assert said.count(b"counted 100") == 2 and b"counted again 100" in said
    assert f"ledger {doomed} was deleted after this job".encode() in said.split(b"failed as it should")[1]
    kept = events_in(tmp_path / "events")
    assert b"SparkListenerTaskEnd" in kept and b"Physical Plan" in said
    for name, secret in secrets(key).items():
        assert secret not in said, f"{name} is in what the jobs said"
        assert secret not in kept, f"{name} is in the event log"


def write(uri: str) -> int:
    with LedgerClient(uri) as client:
        writer = client.create_ledger(ensemble_size=1, password=PASSWORD.encode())
        for _ in range(100):
            writer.append_async(b"x")
        writer.close()
    return writer.ledger_id


def run_jobs(*arguments: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.secret_jobs", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()[-4000:]
    return done.stdout


def secrets(key: Path) -> dict[str, bytes]:
    """What must not be found, and what it looks like in other clothes."""
    line = key.read_bytes().splitlines()[1]
    plain = {"the password": PASSWORD.encode(), "the key": line}
    encoded = {f"{name} in base64": base64.b64encode(secret)[4:-4] for name, secret in plain.items()}
    return plain | encoded | {f"{name} in hex": secret.hex().encode() for name, secret in plain.items()}
