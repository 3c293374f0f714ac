"""A new operator's way through docs/first-cluster.md: from a wheel to three bookies under Prometheus, and an alert."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.docs.shell import Shell, sessions
from tests.support import prometheus
from tests.support.etcd import EtcdServer, free_port
from tests.support.http import get
from tests.support.prometheus import PROMETHEUS, ROOT
from tests.support.waiting import until

DOCUMENT = (ROOT / "docs" / "first-cluster.md").read_text()
MONITORING = (ROOT / "docs" / "monitoring.md").read_text()
CLUSTER = "etcd://etcd1:2379,etcd2:2379,etcd3:2379/prod"
HOSTS = ("host1", "host2", "host3")
SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 300
STOP_SECONDS_MAX = 20

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(prometheus.WHY_NOT), reason=prometheus.WHY_NOT),
]


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def installed(path: Path) -> Path:
    """The wheel in an environment of its own, by the document's commands; where its programs are."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (typed,) = re.findall(r"^    (python3 -m venv .*)\n    (.*pip install .*)$", section("Three hosts"), re.M)
    for command in typed:
        subprocess.run(
            command.replace("/opt/", f"{path}/opt/").replace("pip install", "pip install --quiet"),
            shell=True,
            check=True,
            cwd=path,
            timeout=INSTALL_SECONDS_MAX,
        )
    return path / "opt" / "bookledger" / "bin"


class Host:
    """One of three, on this machine: what a command says of hosts and ports is of it instead."""

    def __init__(self, name: str, path: Path, uri: str) -> None:
        self.http_port = free_port()
        self._here = {
            CLUSTER: uri,
            "--host 0.0.0.0 --advertise $(hostname -f) --insecure": "--port 0 --free-space-min 64 --lease-seconds 1",
            "--http 0.0.0.0:9181": f"--http 127.0.0.1:{self.http_port}",
            "$(hostname)": name,
            "/srv/": f"{path}/{name}-",
        }

    def typed(self, command: str) -> str:
        for there, here in self._here.items():
            command = command.replace(there, here)
        return command


class Watching:
    """A Prometheus with the document's configuration, which looks each second instead of each minute."""

    def __init__(self, path: Path, ports: dict[str, int]) -> None:
        (told,) = re.findall(r"^```yaml\n(.*?)^```", MONITORING, re.MULTILINE | re.DOTALL)
        for name, port in ports.items():
            assert f"{name}:9181" in told
            told = told.replace(f"{name}:9181", f"127.0.0.1:{port}")
        intervals = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        (path / "prometheus.yml").write_text(intervals + told)
        rules = (ROOT / "docs" / "running" / "alerts.yaml").read_text()
        (path / "alerts.yaml").write_text(re.sub(r"\bfor: \w+", "for: 2s", rules))
        self.port = free_port()
        self._command = [
            PROMETHEUS,
            f"--config.file={path}/prometheus.yml",
            f"--storage.tsdb.path={path}/tsdb",
        ]
        self._command += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self._log = path / "prometheus.log"

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            until(self._is_ready, SECONDS_MAX)
            yield
        finally:
            process.terminate()
            process.wait(STOP_SECONDS_MAX)

    def _is_ready(self) -> bool:
        try:
            return get(f"http://127.0.0.1:{self.port}/-/ready")[0] == 200
        except OSError:
            return False

    def asked(self, path: str) -> Any:
        status, told = get(f"http://127.0.0.1:{self.port}/api/v1/{path}")
        assert status == 200, told
        return json.loads(told)["data"]

    def healthy_targets(self) -> int:
        return sum(one["health"] == "up" for one in self.asked("targets")["activeTargets"])

    def value_of(self, expression: str) -> float:
        found = self.asked(f"query?query={urllib.parse.quote(expression)}")["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.asked("rules")["groups"] for rule in group["rules"]]

    def gone(self) -> set[str]:
        """The targets of which an alert says that they do not answer; on a busy machine others may fire."""
        return {
            one["labels"]["instance"]
            for one in self.asked("alerts")["alerts"]
            if (one["labels"]["alertname"], one["state"]) == ("BookieGone", "firing")
        }


def bookie_of(name: str, path: Path) -> psutil.Process:
    (found,) = [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"{path}/{name}-bookie" in (process.info["cmdline"] or []) and "run" in process.info["cmdline"]
    ]
    return found


def test_from_nothing_to_three_bookies_and_an_alert_when_one_is_killed(
    tmp_path: Path, etcd: EtcdServer
) -> None:
    programs = installed(tmp_path)
    hosts = {name: Host(name, tmp_path, f"etcd://{etcd.endpoint}/clean-machine") for name in HOSTS}
    name_it, format_it, run_it, *look_at_it = sessions(section("Three hosts"))
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "80", "PYTHONPATH": ""}
    watching = Watching(tmp_path, {name: host.http_port for name, host in hosts.items()})
    with Shell(tmp_path, environment) as shell, watching.running():
        shell.run("command -v bookledger", str(programs / "bookledger"))
        shell.run(hosts["host1"].typed(name_it[0]), "")
        for host in hosts.values():
            for command, said in (format_it, run_it):
                shell.run(host.typed(command), said)
        for command, said in look_at_it:
            shell.run(command, said)
        until(lambda: watching.healthy_targets() == len(HOSTS), SECONDS_MAX)
        assert watching.value_of("sum(bookledger_bookie_append_entries_total)") >= 1000
        until(lambda: all(rule["health"] == "ok" for rule in watching.rules()), SECONDS_MAX)
        until(lambda: not watching.gone(), SECONDS_MAX)

        address = f"127.0.0.1:{hosts['host2'].http_port}"
        bookie_of("host2", tmp_path).kill()
        until(lambda: watching.gone() == {address}, SECONDS_MAX)
        shell.run("until bookledger cluster status | grep -q host2; do :; done", "")
        shell.run(hosts["host2"].typed(run_it[0]), run_it[1])
        until(lambda: not watching.gone(), SECONDS_MAX)
    shutil.rmtree(tmp_path / "opt")
