"""The example of a file of settings is one, as it is and with each of its lines made to count."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from bookledger.cli.config.group import DAEMONS
from bookledger.cli.config.sections import SECTIONS
from metadata.settings.tunable import defaults_of, to_toml, tunables_of
from tests.support.command_line import bookledger, succeeds

SETTING = re.compile(r"^#([\w-]+ = [^<].*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def example() -> str:
    return succeeds("config", "example").decode()


def test_it_sets_nothing_as_it_is(example: str, tmp_path: Path) -> None:
    (tmp_path / "it.toml").write_text(example)
    assert all(
        not table or set(map(type, table.values())) == {dict} for table in tomllib.loads(example).values()
    )
    assert bookledger("config", "check", str(tmp_path / "it.toml")).returncode == 0


def test_every_default_in_it_may_be_set(example: str, tmp_path: Path) -> None:
    (tmp_path / "it.toml").write_text(SETTING.sub(r"\1", example))
    done = bookledger("config", "check", str(tmp_path / "it.toml"))
    assert (done.returncode, done.stderr) == (0, b"")


def test_all_that_can_be_set_is_in_it_at_its_default(example: str) -> None:
    found = tomllib.loads(SETTING.sub(r"\1", example))
    for name, section in SECTIONS.items():
        defaults = defaults_of(section.kind())
        for field in tunables_of(section.kind()):
            assert f"#{field} = " in example
            if defaults[field] is not None:
                assert found[name][field] == to_toml(defaults[field])
    assert found["bookie"]["run"]["lease-seconds"] == 10.0
    for path in DAEMONS:
        assert f"[{'.'.join(path)}]" in example
