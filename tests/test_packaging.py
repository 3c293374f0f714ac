"""What is shipped, and that generated code is what the .proto files say."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROTOS = ("metadata/records/records.proto", "metadata/etcd/etcd.proto", "bookie/wire/bookie.proto")


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
    assert top == packages | {"bookledger-0.1.0.dist-info"}
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    static = {"console.css", "console.js", "icon.svg"}
    assert {f"bookledger/console/static/{name}" for name in static} <= set(names)
    assert "bookledger/console/templates/base.html" in names
    assert {p.removesuffix(".proto") + "_pb2.py" for p in PROTOS} <= set(names)
