"""docs/running/containers: without images, the files are compared with the program, and the start runs as a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bookledger.cli.bookie.group import bookie as bookie_commands
from bookledger.cli.processes import BookieProcess, started
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.command_line import bookledger
from tests.support.http import HttpBookie
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
RUNNING = ROOT / "docs" / "running"
CONTAINERS = RUNNING / "containers"
STOP_SECONDS_MAX = 60
BOOKIES = ["bookie-1", "bookie-2", "bookie-3"]
PORT_OF_HTTP = "9181"


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())["services"]
    return found


@pytest.mark.parametrize("name", BOOKIES)
def test_a_bookies_options_are_those_of_the_program(name: str) -> None:
    told = services()[name]["environment"]
    assert told["BOOKIE_ID"] == name
    run = bookie_commands.commands["run"]
    arguments = [
        "--metadata",
        told["BOOKLEDGER_METADATA"],
        "--data=/srv/bookie",
        "--advertise",
        name,
        *shlex.split(told["BOOKIE_OPTIONS"]),
    ]
    taken = run.make_context("run", arguments).params
    assert taken["insecure"], "they serve each other in plain text"
    assert taken["host"] == taken["http"].host == "0.0.0.0"
    assert str(taken["http"].port) == PORT_OF_HTTP


def test_what_is_mounted_is_there_and_every_volume_is_declared() -> None:
    whole = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            there = (CONTAINERS / source).exists() if source.startswith(".") else source in whole["volumes"]
            assert there, (name, source)


def test_prometheus_asks_every_bookie_at_the_port_that_it_answers_at() -> None:
    told = yaml.safe_load((CONTAINERS / "prometheus.yaml").read_text())
    targets = [
        target for job in told["scrape_configs"] for one in job["static_configs"] for target in one["targets"]
    ]
    assert targets == [f"{name}:{PORT_OF_HTTP}" for name in BOOKIES]
    mounted = {volume.split(":")[1] for volume in services()["prometheus"]["volumes"]}
    assert {f"/etc/prometheus/{file}" for file in told["rule_files"]} <= mounted


def test_the_image_is_made_of_what_there_is() -> None:
    text = (CONTAINERS / "Containerfile").read_text()
    for source in re.findall(r"^COPY (\S+) ", text, re.MULTILINE):
        assert source.startswith("dist/") or (ROOT / source).exists(), source
    assert re.search(r"^FROM docker.io/library/python:3\.1[123]", text, re.MULTILINE)
    assert json.loads(re.findall(r"^CMD (.*)$", text, re.MULTILINE)[0]) == ["serve-bookie"]
    assert os.access(CONTAINERS / "serve-bookie", os.X_OK)


def test_nothing_else_is_sent_to_who_makes_the_image() -> None:
    first, *kept = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    copied = re.findall(r"^COPY (\S+) ", (CONTAINERS / "Containerfile").read_text(), re.MULTILINE)
    assert first == "*" and kept == [f"!{source}" for source in copied]


@pytest.mark.parametrize("name", BOOKIES)
def test_a_container_is_healthy_while_its_bookie_is_ready(name: str, tmp_path: Path) -> None:
    """The check as it stands there, against a real bookie."""
    command = services()[name]["healthcheck"]["test"]
    assert command[:2] == ["CMD", "python"]
    uri = uri_of(tmp_path / "metadata.db")
    bookie = HttpBookie(name, tmp_path / name, uri, lease_seconds=1, options=["--http=127.0.0.1:0"])
    another = BookieProcess("another", tmp_path / "another", uri)  # which takes what the drained one does not
    with started([bookie, another]):

        def health() -> int:
            check = [one.replace(f"http://127.0.0.1:{PORT_OF_HTTP}", bookie.url) for one in command[2:]]
            return subprocess.run([sys.executable, *check], capture_output=True, check=False).returncode

        assert health() == 0
        assert bookledger("bookie", "drain", name, f"--metadata={uri}").returncode == 0
        until(lambda: health() == 1)


def test_the_console_is_reached_from_the_machine_and_from_no_other() -> None:
    ports = [port for name in BOOKIES for port in services()[name].get("ports", [])]
    assert ports == [f"127.0.0.1:{PORT_OF_HTTP}:{PORT_OF_HTTP}"]


def test_etcd_keeps_no_old_versions() -> None:
    assert "--auto-compaction-mode=periodic" in services()["etcd"]["command"]


def start(tmp_path: Path, **environment: str) -> subprocess.Popen[bytes]:
    """The start script with a `bookledger` on its path."""
    program = tmp_path / "bin" / "bookledger"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bookledger "$@"\n')
    program.chmod(0o755)
    return subprocess.Popen(
        [CONTAINERS / "serve-bookie"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | environment | {"PATH": f"{program.parent}:{os.environ['PATH']}"},
    )


def test_a_bookie_is_formatted_once_and_served_each_time(tmp_path: Path) -> None:
    incarnations = []
    for _ in range(2):
        script = start(
            tmp_path,
            BOOKLEDGER_METADATA=uri_of(tmp_path / "metadata.db"),
            BOOKIE_ID="bookie-1",
            BOOKIE_DATA=str(tmp_path / "data"),
            BOOKIE_OPTIONS="--port=0 --json --http=127.0.0.1:0 --free-space-min=64",
        )
        try:
            assert script.stdout is not None
            for line in script.stdout:
                if line.startswith(b"{"):
                    incarnations.append(json.loads(line)["incarnation"])
                    break
            script.send_signal(signal.SIGTERM)
            assert script.wait(STOP_SECONDS_MAX) == 0
        finally:
            script.kill()
            script.communicate()
    assert len(incarnations) == 2
    assert incarnations[0] == incarnations[1]


@pytest.mark.parametrize("missing", ["BOOKLEDGER_METADATA", "BOOKIE_ID"])
def test_what_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    given = {"BOOKLEDGER_METADATA": uri_of(tmp_path / "metadata.db"), "BOOKIE_ID": "b1"} | {missing: ""}
    script = start(tmp_path, **given)
    _, said = script.communicate(timeout=STOP_SECONDS_MAX)
    assert script.returncode != 0
    assert missing.encode() in said
