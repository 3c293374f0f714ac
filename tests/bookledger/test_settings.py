"""A file of settings: weaker than the environment, which is weaker than what is typed; wrong names are told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.config.sections import SECTIONS
from bookledger.cli.main import _GROUPS
from bookledger.cli.processes import BookieProcess, started
from metadata.settings.tunable import tunables_of
from metadata.sqlite.sqlite_uri import uri_of
from tests.bookledger.typed_commands import Run, file_of
from tests.support.command_line import bookledger, succeeds
from tests.support.etcd import free_port
from tests.support.http import get

pytestmark = pytest.mark.usefixtures("nothing_set")


def shown(run: Run, file: str, *command: str) -> dict[str, tuple[Any, str]]:
    code, out, err = run("--config", file, "config", "show", *command, "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    return {row["setting"]: (row["value"], row["source"]) for row in rows}


def test_options_of_a_command_come_from_its_table(tmp_path: Path, run: Run) -> None:
    file = file_of(tmp_path, '[bookie.run]\nport = 4181\nfault-domain = "/a"\nheal = false\n')
    found = shown(run, file, "bookie", "run")
    assert found["bookie.run.port"] == (4181, "file")
    assert found["bookie.run.fault-domain"] == ("/a", "file")
    assert found["bookie.run.heal"] == (False, "file")
    assert found["bookie.run.lease-seconds"] == (10.0, "default")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("metadat = 'x'", ": metadat: unknown name; did you mean metadata?"),
        ("[limits]\npolsmax = 1", "[limits] polsmax: unknown name; did you mean polls_max?"),
        ("[limits]\npolls_max = true", "[limits] polls_max must be a whole number, not True"),
        ("limits = 3", "limits must be a table of settings, [limits], not a value"),
        ("metadata = 3", "metadata must be text in quotes, not 3"),
        ("[bookie.rum]\nport = 1", "[bookie] rum: unknown name; did you mean run?"),
        ("[bookie]\nrun = 1", "bookie.run must be a table of settings, [bookie.run], not a value"),
        (
            "[bookie.run]\nmetadata = 'x'",
            "[bookie.run] metadata: this setting is for all commands, and belongs at the top of the file",
        ),
        ("[bookie.run]\nport = 'x'", "[bookie.run] port: 'x' is not a valid integer"),
        ("[bookie.run]\nport = 70000", "[bookie.run] port: 70000 is not in the range"),
        ("bookie = 1", "bookie must be a table of settings"),
        (
            "[bookie]\nslow_apend_seconds = 1",
            "[bookie] slow_apend_seconds: unknown name; did you mean slow_append_seconds?",
        ),
        ("[bookie]\nruns = 1", "[bookie] runs: unknown name; did you mean run?"),
        ("[bookie]\nlease_seconds = 5", "[bookie] lease_seconds: set lease-seconds in [bookie.run] instead"),
        ("[upkeep]\nscrub_bytes_per_second = 5", "set scrub-rate in [bookie.run] instead"),
        (
            "[upkeep]\nminor_live_ratio = 0.9",
            "[upkeep]: live ratios must be below 1, and the minor one must not be above",
        ),
        ("[bookie]\nread_threads = 0", "[bookie] read_threads is 0; it must be from 1 to 256"),
        ("[journal-nodes]\nx = 1", "journal-nodes: unknown name; did you mean journal-node?"),
        ("[http.x]\ny = 1", "[http] x: unknown name"),
        ("port", "Expected '=' after a key"),
        ("x = '\\udce9'", "unknown name"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, run: Run, text: str, why: str) -> None:
    file = file_of(tmp_path, text)
    code, _, err = run("config", "check", file)
    assert code == 2
    assert f"{file}" in err and why in err.replace("\n", " "), err
    assert "Traceback" not in err


IMPOSSIBLE = """
metadata = "nonsense"
certs = "/no/where"
key-file = "/no/key"
audit-log = ""
log-format = "xml"
event-loop = "fast"
[bookie.run]
http = "nonsense"
traces = "nonsense"
data = ""
prot = 1
[ledger.append]
ensemble = 3
write-quorum = 9
custom = "novalue"
[ledger.create]
custom = ["novalue"]
[limits]
polls_max = 5
peer_share = 6
calls_max = 0
[client]
pending_bytes_max = "x"
metadat = 1
[nobody]
x = 1
"""

FOUND = (
    "nonsense",
    "certs: ",
    "key-file: ",
    "audit-log: '' is not a file",
    "log-format: 'xml' is not one of plain, json",
    "event-loop: 'fast' is not one of fastest, asyncio, uvloop",
    "[bookie.run] http: 'nonsense' is not HOST:PORT",
    "[bookie.run] traces: 'nonsense' is not a URL",
    "[bookie.run] data: ",
    "[bookie.run] prot: unknown name; did you mean port?",
    "[ledger.append] ensemble size 3, write quorum 9",
    "[ledger.append] custom: this option takes a list of values: write ['novalue']",
    "[ledger.create] custom: 'novalue' is not KEY=VALUE",
    "[limits] peer_share is 6; it must be from 0.001 to 1",
    "[limits] calls_max is 0; it must be from 1",
    "[client] pending_bytes_max must be a whole number, not 'x'",
    "[client] metadat: unknown name",
    "nobody: unknown name",
)


def test_everything_that_is_wrong_is_named_at_once_a_line_each(tmp_path: Path, run: Run) -> None:
    code, _, err = run("config", "check", file_of(tmp_path, IMPOSSIBLE))
    lines = [line for line in err.splitlines() if "bookledger.toml" in line]
    assert code == 2
    for what in FOUND:
        assert [line for line in lines if what in line], (what, err)
    assert len(lines) == len(set(lines)) == len(FOUND), err
    for line in lines:
        assert re.search(r"bookledger\.toml:\d+: ", line), "each with the line of the file"
    (prot,) = [line for line in lines if "prot: unknown name" in line]
    number = IMPOSSIBLE.splitlines().index("prot = 1") + 1
    assert f"bookledger.toml:{number}: [bookie.run] prot" in prot


def test_a_group_shows_what_can_be_set_of_its_commands(tmp_path: Path, run: Run) -> None:
    found = shown(run, file_of(tmp_path, "[bookie.run]\nport = 4181\n"), "bookie")
    assert found["bookie.run.port"] == (4181, "file")
    assert found["bookie.format.replace"] == (False, "default")
    assert shown(run, file_of(tmp_path, ""))["log-format"] == ("plain", "default")


def test_each_setting_is_shown_with_its_default_and_unit(tmp_path: Path, run: Run) -> None:
    file = file_of(tmp_path, "[bookie]\nslow_append_seconds = 3\n[journal]\nensemble_size = 3\n")
    code, out, err = run("--config", file, "config", "show", "--json")
    assert code == 0, err
    rows = {row["setting"]: row for row in map(json.loads, out.splitlines())}
    for table, one in SECTIONS.items():
        assert {f"{table}.{name}" for name in tunables_of(one.kind())} <= rows.keys()
    slow = rows["bookie.slow_append_seconds"]
    assert (slow["value"], slow["source"], slow["default"], slow["unit"]) == (3.0, "file", 1.0, "s")
    same = rows["journal.ensemble_size"]
    assert (same["value"], same["source"], same["default"]) == (3, "file", 3), "said, if to no effect"
    assert rows["upkeep.repair_bytes_per_second"]["unit"] == "bytes a second"
    assert rows["journal.digest"]["value"] == "crc32c"


def test_a_file_that_is_none_is_told(tmp_path: Path, run: Run) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"#")
    for name, why in (
        ("missing", "No such file"),
        ("bytes", "is not UTF-8 text: byte 1"),
        ("large", "has more than"),
    ):
        code, _, err = run("config", "check", str(tmp_path / name))
        assert code == 2 and why in err


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, run: Run) -> None:
    """As editors on Windows write it."""
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf[bookie]\nslow_append_seconds = 3\n")
    code, _, err = run("config", "check", str(tmp_path / "marked"))
    assert (code, err) == (0, "")


def test_what_is_wrong_stops_a_command_before_it_starts(tmp_path: Path, run: Run) -> None:
    file = file_of(tmp_path, "[bookie.run]\nprot = 1\n")
    code, _, err = run("--config", file, "bookie", "run", f"--data={tmp_path}/none", "--metadata=sqlite:///x")
    assert code == 2 and "did you mean port?" in err


@pytest.mark.parametrize("name", sorted(_GROUPS))
def test_every_command_shows_what_can_be_set(name: str, run: Run) -> None:
    code, _, err = run("config", "show", name)
    assert code == 0, err


LARGE = b"x" * 3_000_000
"""Nothing is stored so large within a millisecond."""


def test_settings_of_a_file_take_effect_in_a_bookie_and_in_commands(tmp_path: Path) -> None:
    http = free_port()
    uri = uri_of(tmp_path / "metadata.db")
    file = file_of(
        tmp_path,
        f'metadata = "{uri}"\n'
        "[bookie]\nslow_append_seconds = 0.001\n"
        "[limits]\ncalls_max = 99\n"
        f'[bookie.run]\nhttp = "127.0.0.1:{http}"\nfault-domain = "/from/file"\n'
        "[http]\nconnections_max = 4\n"
        "[client]\nfault_domains_min = 2\n",
    )
    bookie = BookieProcess("b1", tmp_path / "b1", uri, environment={"BOOKLEDGER_CONFIG": file})
    with started([bookie]):
        append = ("ledger", "append", "--ensemble=1", "--write-quorum=1", "--ack-quorum=1")
        succeeds(*append, f"--metadata={uri}", stdin=LARGE)
        refused = bookledger("--config", file, *append, stdin=b"x")
        assert refused.returncode == 1 and b"fault domain" in refused.stderr, refused.stderr
        assert b"/from/file" in succeeds("bookie", "info", f"--metadata={uri}", "--json")
        told = bookledger("bookie", "gc", "status", "b1", f"--metadata={uri}", "--json").stdout
        assert json.loads(told)["limits"]["calls"]["limit"] == 99
        assert "bookledger_http_connections_limit 4.0" in get(f"http://127.0.0.1:{http}/metrics")[1]
    assert "an append took" in bookie.log.read_text()
