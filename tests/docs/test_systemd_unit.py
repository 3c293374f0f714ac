"""docs/running/bookledger-bookie.service, started as systemd starts it: with its own PATH and environment, in /."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bookledger.admin import systemd
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.command_line import bookledger

DOCS = Path(__file__).parents[2] / "docs"
UNIT = DOCS / "running" / "bookledger-bookie.service"
INSTALLED = "/opt/bookledger/bin"
"""Where the documents put the program."""

STOP_SECONDS_MAX = 60

SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
"""What a system service has: systemd.exec(5), "Environment Variables in Spawned Processes"."""


def unit(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def steps() -> str:
    found = re.search(
        r"^## As a service\n.*?^```sh\n(.*?)^```", (DOCS / "first-cluster.md").read_text(), re.M | re.S
    )
    assert found
    return found[1]


def environment_file() -> dict[str, str]:
    """As the documented steps write it."""
    assert f"cat > {unit('EnvironmentFile')} <<" in steps()
    text = steps().partition("<<'END'\n")[2].partition("END\n")[0]
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_program_is_where_the_documents_install_it() -> None:
    first_cluster = (DOCS / "first-cluster.md").read_text()
    assert f"{INSTALLED}/pip install bookledger-*.whl" in first_cluster
    assert shlex.split(unit("ExecStart"))[0] == f"{INSTALLED}/bookledger"
    assert f"{INSTALLED}/bookledger bookie format" in steps()


def test_there_is_one_unit() -> None:
    assert [path.name for path in DOCS.rglob("*.service")] == [UNIT.name]
    assert not [page.name for page in DOCS.rglob("*.md") if re.search(r"^ExecStart=", page.read_text(), re.M)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_it(tmp_path: Path) -> None:
    here = tmp_path / UNIT.name  # systemd looks whether the program is there
    here.write_text(UNIT.read_text().replace(INSTALLED, str(Path(sys.executable).parent)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)], capture_output=True, text=True, check=False
    )
    assert not [line for line in done.stderr.splitlines() if UNIT.name in line], done.stderr


def test_it_runs_as_systemd_runs_it(tmp_path: Path) -> None:
    """What stands for this machine: where the program and the data are, and that there are no certificates."""
    data, uri = tmp_path / "bookie", uri_of(tmp_path / "metadata.db")
    assert bookledger("bookie", "format", f"--metadata={uri}", f"--data={data}", "--id=host1").returncode == 0
    told = environment_file()
    assert told.keys() == {"BOOKLEDGER_METADATA", "BOOKLEDGER_CERTS", "BOOKIE_OPTIONS"}
    options = told["BOOKIE_OPTIONS"].replace("127.0.0.1:9181", "127.0.0.1:0").split()
    line = (
        unit("ExecStart")
        .replace(INSTALLED, str(Path(sys.executable).parent))
        .replace("/srv/bookie", str(data))
    )
    command = [
        word
        for given in line.split()
        for word in (
            options if given == "$BOOKIE_OPTIONS" else [given]
        )  # as systemd splits what is not in braces
    ]
    address = str(tmp_path / "notify")
    environment = {
        "PATH": SYSTEMD_PATH,
        "LANG": "C.UTF-8",
        "USER": "bookledger",
        "LOGNAME": "bookledger",
        "HOME": "/home/bookledger",  # of a system user: it is not there
        "SHELL": "/usr/sbin/nologin",
        "INVOCATION_ID": "0" * 32,
        "NOTIFY_SOCKET": address,
        "WATCHDOG_USEC": "60000000",
        "BOOKLEDGER_METADATA": uri,
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(STOP_SECONDS_MAX)
        bookie = subprocess.Popen(
            [*command, "--port=0", "--insecure", "--free-space-min=64"],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            heard = [manager.recv(100).decode()]
            while systemd.READY not in heard:
                assert bookie.poll() is None, bookie.communicate()[1]
                heard.append(manager.recv(100).decode())
            bookie.send_signal(signal.SIGTERM)
            _, said = bookie.communicate(timeout=STOP_SECONDS_MAX)
        finally:
            bookie.kill()
            bookie.wait()
    assert bookie.returncode == 0, said
    assert b"Traceback" not in said


@pytest.mark.parametrize("limit", ["TimeoutStopSec", "WatchdogSec", "LimitNOFILE"])
def test_what_the_documents_say_of_its_limits_is_set(limit: str) -> None:
    assert int(unit(limit)) > 0
