"""What is shipped, and that generated code is what the .proto files say."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.command_line import bookledger

ROOT = Path(__file__).parent.parent
PROTOS = (
    "metadata/records/records.proto",
    "metadata/etcd/etcd.proto",
    "bookie/wire/bookie.proto",
    "qjm_compat/hadoop/wire/hadoop.proto",
)
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize("proto", PROTOS)
def test_committed_generated_code_is_what_its_proto_generates(proto: str, tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            "-I.",
            f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}",
            proto,
        ],
        cwd=ROOT,
        check=True,
    )
    stem = proto.removesuffix(".proto") + "_pb2"
    for suffix in (".py", ".pyi"):
        assert (tmp_path / (stem + suffix)).read_text() == (ROOT / (stem + suffix)).read_text(), (
            "run `make protos`"
        )


def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    packages = {"metadata", "bookie", "ledgers", "qjm_compat", "spark", "bookledger"}
    assert top == packages | {f"bookledger-{VERSION}.dist-info"}
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    static = {"console.css", "console.js", "icon.svg"}
    assert {f"bookledger/console/static/{name}" for name in static} <= set(names)
    assert "bookledger/console/templates/base.html" in names
    assert {p.removesuffix(".proto") + "_pb2.py" for p in PROTOS} <= set(names)


def test_the_changelog_the_command_and_the_documents_name_the_version_that_is_built() -> None:
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1] == VERSION
    assert bookledger("--version").stdout.decode() == f"bookledger, version {VERSION}\n"
    wheels = {
        found
        for page in (ROOT / "docs").glob("*.md")
        for found in re.findall(r"bookledger-([\w.]+)-py3-none-any", page.read_text())
    }
    assert wheels == {VERSION}
