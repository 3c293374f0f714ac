"""The tests take an etcd that keeps its writes, wherever there is one, and say so where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import etcd_program
from tests.support.etcd_program import TESTED, NoEtcdBinary, find_etcd, version_of, why_not_sound


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders for the system's, the built and the package's etcd; all are empty."""
    monkeypatch.delenv("BOOKLEDGER_ETCD", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'package'}:{tmp_path / 'system'}")  # as in an active environment
    monkeypatch.setattr(etcd_program, "BUILT", tmp_path / "built")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "package" / "python"))
    return tmp_path


def etcd_at(path: Path, version: str) -> str:
    path.mkdir(parents=True)
    program = path / "etcd"
    program.write_text(f"#!/bin/sh\necho etcd Version: {version}\necho Git SHA: none\n")
    program.chmod(0o755)
    return str(program)


def test_the_systems_goes_before_a_built_one_and_that_before_the_packages(places: Path) -> None:
    with pytest.raises(NoEtcdBinary, match="Run `make test`"):
        find_etcd()
    package = etcd_at(places / "package", "3.5.99")
    assert find_etcd() == package
    built = etcd_at(places / "built" / TESTED, TESTED)
    assert find_etcd() == built
    system = etcd_at(places / "system", "3.4.23")
    assert (find_etcd(), why_not_sound()) == (system, "")


@pytest.mark.parametrize("version", ["3.3.25", "3.5.2"])
def test_one_that_may_lose_writes_is_passed_over(places: Path, version: str) -> None:
    etcd_at(places / "system", version)
    built = etcd_at(places / "built" / TESTED, TESTED)
    assert find_etcd() == built


def test_where_there_is_no_other_it_is_taken_and_that_is_told(places: Path) -> None:
    package = etcd_at(places / "package", "3.5.1")
    assert find_etcd() == package
    assert "3.5.1, which may lose confirmed writes" in why_not_sound() and "make etcd" in why_not_sound()


def test_one_that_is_named_is_taken_as_it_is(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd_at(places / "system", TESTED)
    named = etcd_at(places / "named", "3.5.1")
    monkeypatch.setenv("BOOKLEDGER_ETCD", named)
    assert find_etcd() == named
    monkeypatch.setenv("BOOKLEDGER_ETCD", str(places / "nothing"))
    with pytest.raises(NoEtcdBinary, match="is not a program"):
        find_etcd()


def test_what_is_no_etcd_is_told(places: Path) -> None:
    program = etcd_at(places / "system", "")
    Path(program).write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(NoEtcdBinary, match="it says 'hello"):
        version_of(program)
