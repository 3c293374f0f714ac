"""What daemons tell operators over HTTP: real processes, asked as Prometheus and a load balancer ask them."""

from __future__ import annotations

import html
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import Role
from bookledger.admin.bookies import STARTING, Bookies
from bookledger.admin.http.server import REQUEST_SECONDS_MAX
from bookledger.cli.processes import BOOKLEDGER, Child, started
from ledgers import LedgerClient, LedgerFenced, MetadataUnavailable, NewLedger
from metadata.counting import facts
from metadata.counting.facts import Verdict
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.authority import TestAuthority
from tests.support.command_line import bookledger
from tests.support.etcd import EtcdServer, free_port
from tests.support.http import HttpBookie as Bookie
from tests.support.http import get
from tests.support.waiting import until

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_of(url: str) -> Samples:
    code, text = get(f"{url}/metrics")
    assert code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: str) -> float:
    """The sum over all bookies."""
    wanted = set(labels.items())
    return sum(value for (found, at), value in samples.items() if found == name and wanted <= set(at))


@contextmanager
def one_bookie(tmp_path: Path, uri: str = "") -> Iterator[tuple[Bookie, str]]:
    uri = uri or uri_of(tmp_path / "metadata.db")
    bookie = Bookie("b1", tmp_path / "b1", uri, lease_seconds=1, options=["--http=127.0.0.1:0"])
    with started([bookie]):
        yield bookie, uri


class Standalone:
    """`bookledger standalone --http`."""

    def __init__(self, path: Path) -> None:
        command = (
            *BOOKLEDGER, "standalone", f"--data={path}", "--port=0", "--http=127.0.0.1:0", "--json",
            "--free-space-min=16",
        )  # fmt: skip
        self._child = Child(command, name="standalone", log=path.with_name("standalone.log"))

    def __enter__(self) -> Self:
        told = self._child.hear()
        self.url, self.uri = told["http"], told["metadata"]
        return self

    def __exit__(self, *error: object) -> None:
        assert self._child.stop() == 0


def test_what_was_appended_read_fenced_and_refused_is_counted(tmp_path: Path) -> None:
    with Standalone(tmp_path / "data") as daemon, LedgerClient(daemon.uri) as client:
        writer = client.create_ledger(ack_quorum=3)
        for n in range(10):
            writer.append(b"%03d" % n)
        assert len(list(client.open_ledger(writer.ledger_id).read())) == 10
        with pytest.raises(LedgerFenced):
            writer.append(b"late")
        # The first refusal is all the writer waits for; the other bookie's may be under way still.
        until(
            lambda: (
                of(
                    samples_of(daemon.url),
                    "bookledger_bookie_refused_total",
                    request="append",
                    status="fenced",
                )
                >= 2
            )
        )
        found = samples_of(daemon.url)
    assert of(found, "bookledger_bookie_append_entries_total") >= 30  # recovery writes the last one once more
    assert of(found, "bookledger_bookie_append_bytes_total") >= 90
    assert of(found, "bookledger_bookie_append_seconds_count", bookie="bookie-1") >= 10
    assert 0 < of(found, "bookledger_bookie_append_seconds_sum") < 30
    assert (
        of(found, "bookledger_bookie_sync_seconds_count")
        == of(found, "bookledger_bookie_sync_group_bytes_count")
        >= 30
    )
    assert of(found, "bookledger_bookie_read_entries_total") >= 10
    assert of(found, "bookledger_bookie_read_seconds_count") >= 1
    assert of(found, "bookledger_bookie_fences_total") >= 2
    for fact in facts.OF_A_BOOKIE:
        verdict = "unknown" if fact is facts.READABLE else "well"
        assert of(found, "bookledger_health_fact", fact=fact.name, verdict=verdict) == 3
    assert of(found, "bookledger_bookie_limit_held", limit="connections") >= 3
    assert of(found, "process_resident_memory_bytes") > 0


def verdict_on(fact: str, url: str) -> str:
    """What the daemon's metrics say; one verdict at a time."""
    found = samples_of(url)
    (verdict,) = [
        one for one in Verdict if of(found, "bookledger_health_fact", fact=fact, verdict=one.value) == 1
    ]
    return verdict


def test_a_bookie_that_takes_nothing_new_says_why_it_is_not_ready_and_lives(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    both = [
        Bookie(name, tmp_path / name, uri, lease_seconds=1, options=["--http=127.0.0.1:0"])
        for name in ("b1", "b2")
    ]
    with started(both):
        assert bookledger("bookie", "drain", "b1", f"--metadata={uri}").returncode == 0
        until(lambda: get(f"{both[0].url}/readyz")[0] == 503)
        assert json.loads(get(f"{both[0].url}/readyz")[1])["detail"].startswith("b1: read-only: ")
        assert get(f"{both[0].url}/healthz") == (200, "ok\n")
        assert verdict_on("writable", both[0].url) == "amiss"
        assert get(f"{both[1].url}/readyz") == (200, "ok\n")


def test_a_bookie_whose_metadata_is_away_is_not_ready(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd, one_bookie(tmp_path, f"etcd://{etcd.endpoint}/test") as (bookie, _):
        assert verdict_on("registered", bookie.url) == "well"
        etcd.kill()
        until(lambda: get(f"{bookie.url}/readyz")[0] == 503)
        assert "b1: it is not registered" in get(f"{bookie.url}/readyz")[1]
        assert verdict_on("registered", bookie.url) == "amiss"
        until(lambda: verdict_on("metadata", bookie.url) == "unknown")
        etcd.restart()
        until(lambda: get(f"{bookie.url}/readyz")[0] == 200)


def test_an_etcd_that_is_out_of_space_is_told_at_once_by_every_face(tmp_path: Path) -> None:
    """Appends to open ledgers go on, and nothing else that changes the metadata."""
    etcd = EtcdServer(tmp_path, quota_bytes=1 << 20)
    etcd.start()
    uri = f"etcd://{etcd.endpoint}/full?timeout=5"
    told = "etcd is out of space, and refuses changes: make room and disarm its alarm"

    def api() -> Any:
        return json.loads(get(f"{bookie.url}/api/v1/cluster")[1])

    try:
        with one_bookie(tmp_path, uri) as (bookie, _), LedgerClient(uri) as client:
            until(lambda: verdict_on("metadata", bookie.url) == "well")
            until(lambda: api()["condition"] == "whole" and api()["metadata"]["refuses"] == "")
            open_ledger = client.create_ledger(ensemble_size=1)
            large = NewLedger(ensemble_size=1, custom_metadata={"filler": b"x" * 60_000})
            with pytest.raises(
                MetadataUnavailable, match=r"refused.*nothing was changed: .*database space exceeded"
            ):
                for _ in range(1000):
                    client.reserve_ledger(large)
            with pytest.raises(MetadataUnavailable, match="out of space"):
                client.create_ledger(ensemble_size=1)
            assert open_ledger.append(b"meanwhile") == 0
            reader = client.open_ledger(open_ledger.ledger_id, recovery=False)
            assert next(reader.read_unconfirmed(0, 0)).payload == b"meanwhile"
            until(lambda: get(f"{bookie.url}/readyz")[0] == 503)
            assert json.loads(get(f"{bookie.url}/readyz")[1])["detail"].startswith(f"b1: {told}")
            assert verdict_on("metadata", bookie.url) == "amiss"
            assert api()["condition"] == "wounded" and api()["metadata"]["refuses"].startswith(told)
            assert told in html.unescape(get(f"{bookie.url}/")[1])
            status = bookledger("cluster", "status", f"--metadata={uri}")
            assert status.returncode == 1 and told in status.stdout.decode()
            etcd.end_alarms(quota_bytes=64 << 20)
            until(lambda: get(f"{bookie.url}/readyz")[0] == 200)
            until(lambda: bookledger("cluster", "status", f"--metadata={uri}").returncode == 0)
            assert open_ledger.append(b"behind") == 1
            open_ledger.close()
    finally:
        etcd.stop()


def test_it_answers_while_the_bookie_waits_for_metadata_that_hangs_and_is_ready_once_it_answers(
    tmp_path: Path,
) -> None:
    """A restart beside an etcd that takes connections, and says nothing."""
    etcd = EtcdServer(tmp_path)
    etcd.start()
    port = free_port()
    options = [f"--http=127.0.0.1:{port}"]
    bookie = Bookie("b1", tmp_path / "b1", f"etcd://{etcd.endpoint}/test", options=options)
    url = f"http://127.0.0.1:{port}"
    try:
        bookie.format()
        etcd.hang()
        bookie.launch()
        until(lambda: answers(port))
        assert get(f"{url}/healthz") == (200, "ok\n")
        code, why = get(f"{url}/readyz")
        assert (code, json.loads(why)["detail"]) == (503, STARTING)
        assert of(samples_of(url), "process_resident_memory_bytes") > 0
        etcd.go_on()
        bookie.await_ready()
        assert get(f"{url}/readyz") == (200, "ok\n")
    finally:
        bookie.stop()
        etcd.stop()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_who_says_nothing_or_half_of_something_is_cut(tmp_path: Path) -> None:
    with one_bookie(tmp_path) as (bookie, _), ExitStack() as held:
        host, _, port = bookie.url.removeprefix("http://").rpartition(":")
        silent = held.enter_context(socket.create_connection((host, int(port))))
        half = held.enter_context(socket.create_connection((host, int(port))))
        half.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        for one in (silent, half):
            one.settimeout(REQUEST_SECONDS_MAX + 10)
            assert one.recv(1000) == b""


def opener_of(authority: TestAuthority, role: Role = Role.CONSOLE) -> urllib.request.OpenerDirector:
    tls = Certificates(authority.of(role)).client
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )


def test_a_bookie_with_certificates_asks_for_one_over_http_too(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    options = ["--http=0.0.0.0:0", f"--certs={authority.bookie('b1')}"]
    bookie = Bookie("b1", tmp_path / "b1", uri_of(tmp_path / "metadata.db"), options=options)
    with started([bookie]):
        url = bookie.url.replace("0.0.0.0", "127.0.0.1")  # what it listens on
        assert url.startswith("https://")
        for role, expected in ((Role.CONSOLE, 200), (Role.CLIENT, 403)):
            try:
                status = opener_of(authority, role).open(f"{url}/metrics", timeout=10).status
            except urllib.error.HTTPError as error:
                status = error.code
            assert status == expected
        text = opener_of(authority).open(f"{url}/metrics", timeout=10).read().decode()
        assert (
            0
            < float(re.findall(r"^bookledger_bookie_certificate_left_seconds\S* (\S+)$", text, re.M)[0])
            < 30 * 86_400
        )


def test_a_process_without_bookies_yet_tells_of_itself() -> None:
    content = Bookies(1).http_content()
    assert facts.why_not_ready(content.findings())
    names = {metric.name for metric in content.registry.collect()}
    assert "process_resident_memory_bytes" in names
    assert not [name for name in names if name.startswith("bookledger_bookie")]


def test_an_auditor_by_itself_answers_and_tells_what_it_saw(tmp_path: Path) -> None:
    with one_bookie(tmp_path) as (_, uri), LedgerClient(uri) as client:
        client.create_ledger(ensemble_size=1).close()
        command = (*BOOKLEDGER, "autorecovery", f"--metadata={uri}", "--http=127.0.0.1:0", "--json")
        auditor = Child(command, name="autorecovery", log=tmp_path / "autorecovery.log")
        try:
            url = auditor.hear()["http"]
            until(lambda: get(f"{url}/readyz") == (200, "ok\n"))
            until(
                lambda: (
                    of(samples_of(url), "bookledger_metadata_calls_total", call="get", outcome="done") >= 1
                )
            )
            found = samples_of(url)
            assert of(found, "bookledger_auditor_elected") == 0, "the bookie is"
            assert of(found, "bookledger_metadata_calls_total", call="get", outcome="done") >= 1
            assert not [name for name, _ in found if name.startswith("bookledger_bookie")]
            status, told = get(f"{url}/api/v1/cluster")
            assert (status, json.loads(told)["bookies"]["living"]) == (200, 1), told
            assert get(f"{url}/")[0] == 200
        finally:
            assert auditor.stop() == 0
