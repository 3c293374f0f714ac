"""VERSION as NameNodes and JournalNodes write it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qjm_compat.requests import NamespaceInfo
from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.version_file import read_version


def test_a_name_nodes_version_says_whose_edits_these_are(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text(
        "#Sat Nov 21 20:25:56 UTC 2026\nnamespaceID=1032829800\n"
        "blockpoolID=BP-542690510-127.0.0.1-1795292743373\nstorageType=NAME_NODE\n"
        "cTime=1795292743373\nclusterID=CID\\:with\\=signs\nlayoutVersion=-67\n"
    )
    assert read_version(tmp_path) == NamespaceInfo(
        1032829800, "CID:with=signs", "BP-542690510-127.0.0.1-1795292743373", 1795292743373, -67
    )


def test_a_directory_without_a_version_says_nothing(tmp_path: Path) -> None:
    assert read_version(tmp_path) is None


@pytest.mark.parametrize("lacking", ["namespaceID", "clusterID", "layoutVersion"])
def test_a_version_that_lacks_something_is_refused_by_name(tmp_path: Path, lacking: str) -> None:
    lines = ["namespaceID=1", "clusterID=c", "layoutVersion=-63"]
    (tmp_path / "VERSION").write_text("\n".join(line for line in lines if not line.startswith(lacking)))
    with pytest.raises(TransferRefused, match=f"VERSION has no {lacking}"):
        read_version(tmp_path)


def test_a_version_with_nonsense_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("namespaceID=one\nclusterID=c\nlayoutVersion=-63\n")
    with pytest.raises(TransferRefused, match="cannot be read"):
        read_version(tmp_path)


@pytest.mark.parametrize(
    "absurd",
    [
        f"layoutVersion={-(2**31) - 1}",
        "layoutVersion=0",
        "namespaceID=-1",
        f"namespaceID={2**63}",
        "cTime=-1",
        f"cTime={2**63}",
    ],
)
def test_a_version_with_a_number_that_cannot_be_is_refused(tmp_path: Path, absurd: str) -> None:
    numbers = {"namespaceID": "1", "cTime": "0", "layoutVersion": "-63", "clusterID": "c"}
    name, _, value = absurd.partition("=")
    lines = [f"{one}={told}" for one, told in {**numbers, name: value}.items()]
    (tmp_path / "VERSION").write_text("\n".join(lines))
    with pytest.raises(TransferRefused, match=f"{value} is not from"):
        read_version(tmp_path)


def test_a_version_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "VERSION")
    with pytest.raises(TransferRefused, match="is not a regular file"):
        read_version(tmp_path)
