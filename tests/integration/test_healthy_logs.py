"""The logs of a healthy cluster have no warning and no error: neither of its first start, nor of a later one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess
from ledgers import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.cluster_status import status
from tests.support.etcd import EtcdServer
from tests.support.processes import serving
from tests.support.waiting import until

ENVIRONMENT = {"BOOKLEDGER_LOG_FORMAT": "json"}
CALM = ("debug", "info")
OLD_ETCD = "etcd is version 3.5."
"""What a bookie says of the tests' etcd, which may be one that should be upgraded."""


def alarms(bookies: list[BookieProcess]) -> list[str]:
    """Lines that are warnings or worse, or that no logger has written."""
    return [line for bookie in bookies for line in bookie.log.read_text().splitlines() if not is_calm(line)]


def is_calm(line: str) -> bool:
    if not line.startswith("{"):
        return False
    told = json.loads(line)
    return told["level"] in CALM or told["message"].startswith(OLD_ETCD)


@contextmanager
def metadata_of(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if kind == "sqlite":
        yield uri_of(tmp_path / "metadata.db")
    else:
        etcd: EtcdServer = request.getfixturevalue("etcd")
        yield f"etcd://{etcd.endpoint}/healthy-logs"


@pytest.mark.parametrize("kind", ["sqlite", "etcd"])
def test_a_cluster_that_starts_works_stops_and_starts_again_warns_of_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with metadata_of(kind, tmp_path, request) as uri:
        bookies = [
            BookieProcess(f"b{n}", tmp_path / f"b{n}", uri, lease_seconds=2, environment=ENVIRONMENT)
            for n in range(3)
        ]
        for bookie in bookies:
            bookie.format()
        for _ in range(2):
            with serving(bookies):
                until(lambda: (seen := status(uri))["whole"] is True and seen["auditor"] is not None)
                with LedgerClient(uri) as client:
                    with client.create_ledger() as writer:
                        for n in range(20):
                            writer.append(b"entry %d" % n)
                    assert len(list(client.open_ledger(writer.ledger_id).read())) == 20
            assert alarms(bookies) == []
