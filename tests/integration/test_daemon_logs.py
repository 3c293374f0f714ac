"""What daemons write to their logs: what begins and ends, whose it is, and no line more often than it helps."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bookledger.cli.processes import BOOKLEDGER, BookieProcess, Child, started
from ledgers import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.etcd import EtcdServer
from tests.support.http import HttpBookie, get
from tests.support.waiting import until


def test_a_process_of_three_bookies_says_of_each_line_whose_it_is(tmp_path: Path) -> None:
    log = tmp_path / "standalone.log"
    command = (*BOOKLEDGER, "standalone", f"--data={tmp_path}/data", "--port=0", "--json")
    daemon = Child(command, name="standalone", log=log)
    told = daemon.hear()
    assert daemon.stop() == 0
    lines = log.read_text().splitlines()
    for n, address in enumerate(told["bookies"], 1):
        begins, ends = [line for line in lines if f" bookie-{n}: " in line]
        assert "serving: version " in begins and f" on {address}, incarnation " in begins
        assert f"data in {tmp_path}/data/bookie-{n}" in begins and "of the log" in begins
        assert "stopping as requested; served for " in ends
    assert not [line for line in lines if "WARNING" in line or "ERROR" in line], "nothing is amiss"
    assert len(lines) == 6, lines


def test_json_lines_have_the_bookie_as_a_field(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    bookie = BookieProcess(
        "b1", tmp_path / "b1", uri, lease_seconds=1, environment={"BOOKLEDGER_LOG_FORMAT": "json"}
    )
    with started([bookie]):
        pass
    told = [json.loads(line) for line in bookie.log.read_text().splitlines()]
    of_bookie = [one for one in told if one.get("bookie") == "b1"]
    assert of_bookie[0]["message"].startswith("serving: version ")
    assert of_bookie[-1]["message"].startswith("stopping as requested; served for ")


def test_after_a_crash_it_is_said_how_much_of_the_log_was_read_again(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    bookie = BookieProcess("b1", tmp_path / "b1", uri, lease_seconds=1)
    with started([bookie]):
        with LedgerClient(uri) as client, client.create_ledger(ensemble_size=1) as writer:
            for _ in range(20):
                writer.append(bytes(1000))
        bookie.kill()
        bookie.start()
        (begins,) = [line for line in bookie.log.read_text().splitlines()[1:] if "serving: version" in line]
    records, size = begins.split(" and replayed ")[1].split(" records (")
    assert int(records) >= 1 and int(size.split(" bytes")[0]) >= 20_000


def calls_that_failed(url: str) -> float:
    """To the metadata."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(get(f"{url}/metrics")[1])
        for sample in family.samples
        if sample.name == "bookledger_metadata_calls_total" and sample.labels["outcome"] != "done"
    )


def test_an_outage_of_the_metadata_is_told_once_by_each_bookie_and_its_end(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        uri = f"etcd://{etcd.endpoint}/test?timeout=1"
        bookies = [
            HttpBookie(name, tmp_path / name, uri, lease_seconds=1, options=["--http=127.0.0.1:0"])
            for name in ("b1", "b2")
        ]
        with started(bookies):
            until(lambda: any("is the auditor" in bookie.log.read_text() for bookie in bookies))
            before = [len(bookie.log.read_text().splitlines()) for bookie in bookies]
            etcd.kill()
            until(lambda: all(get(f"{bookie.url}/readyz")[0] == 503 for bookie in bookies))
            until(lambda: all(calls_that_failed(bookie.url) >= 20 for bookie in bookies))
            etcd.restart()
            until(lambda: all(get(f"{bookie.url}/readyz")[0] == 200 for bookie in bookies))
            until(lambda: all("answers again" in bookie.log.read_text() for bookie in bookies))
            for bookie, known in zip(bookies, before, strict=True):
                new = bookie.log.read_text().splitlines()[known:]
                assert "the metadata store does not answer, will keep trying: " in new[0], new
                assert len([line for line in new if "does not answer" in line]) == 1, new
                assert len(new) <= 5, new


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[HttpBookie]:
    uri = uri_of(tmp_path / "metadata.db")
    bookie = HttpBookie("b1", tmp_path / "b1", uri, lease_seconds=1, options=["--http=127.0.0.1:0"])
    with started([bookie]):
        yield bookie


def answered(bookie: HttpBookie, noise: bytes) -> None:
    """Returns when it has said something to what is no request."""
    host, _, port = bookie.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as one:
        one.sendall(noise)
        assert one.recv(10)


def test_what_is_no_request_is_one_short_line_however_often_it_comes(listening: HttpBookie) -> None:
    for noise in (
        b"\x16\x03\x01 no request\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ):
        for _ in range(20):
            answered(listening, noise)
    assert get(f"{listening.url}/healthz")[0] == 200
    listening.stop()
    text = listening.log.read_text()
    assert "Traceback" not in text
    told = [line for line in text.splitlines() if "invalid HTTP request" in line]
    assert 1 <= len(told) <= 3 and all(len(line) < 500 for line in told), told


PASSWORD = b"mellon"


@pytest.mark.parametrize(
    "noise",
    [
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: " + PASSWORD + b"\x00\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: " + PASSWORD * 10_000 + b"\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz" + PASSWORD + b"\r\n\r\n",
    ],
    ids=["no header", "a long header", "no chunk"],
)
def test_what_was_sent_over_http_is_never_told(listening: HttpBookie, noise: bytes) -> None:
    """It may be a password that came in a header that is none."""
    answered(listening, noise)
    listening.stop()
    text = listening.log.read_text()
    assert "invalid HTTP request" in text and PASSWORD.decode() not in text
