"""Edits that real NameNodes wrote go through a journal unchanged, and Hadoop reads what comes out of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from qjm_compat.aio import DEFAULT_ACCEPTOR, QuorumJournalManager
from qjm_compat.config import AcceptorConfig
from qjm_compat.hadoop.pages.node_pages import spelled
from qjm_compat.requests import NamespaceInfo
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.inspection.inspector import JournalInspector
from qjm_compat.transfer.journal_export import Exported, export_directory
from qjm_compat.transfer.journal_import import Imported, ImportOptions, import_directory
from tests.qjm_compat.edits.real_segments import FOLDER, NAMES, content_of, needs_segments, records_of
from tests.support.aio import run
from tests.support.command_line import bookledger
from tests.support.hadoop import JournalNode, NameNode, dfsadmin, each_version, fs, oev, xml_to_edits
from tests.support.http import get

SAMPLES = os.environ.get("BOOKLEDGER_NAMENODE_SAMPLES", "")
"""A folder with directories of NameNodes below it, as many as there are."""


def there_and_back(
    uri: str, journal_id: str, source: Path, target: Path, namespace: NamespaceInfo | None = None
) -> tuple[Imported, Exported]:
    """A directory into a journal, which must be whole then, and out of it."""

    async def whole() -> tuple[Imported, Exported]:
        acceptors = [AcceptorConfig(DEFAULT_ACCEPTOR, uri)]
        async with (
            JournalInspector(journal_id, acceptors) as inspector,
            QuorumJournalManager(uri, journal_id) as manager,
        ):
            if namespace is not None:
                await manager.format(namespace)
            imported = await import_directory(manager, inspector, source, ImportOptions())
            found = await check_journal(inspector, deep=True, orphan_age_seconds=0)
            assert [str(problem) for problem in found.problems] == []
            return imported, await export_directory(manager, target)

    return run(whole(), timeout_seconds=120)


def check_files(source: Path, target: Path) -> None:
    """What was finalized is the same, byte for byte; what was in progress is finalized, without its padding."""
    exported = {path.name: path.read_bytes() for path in target.iterdir() if path.name.startswith("edits_")}
    for path in sorted(source.iterdir()):
        if path.name.startswith("edits_inprogress_"):
            first = path.name.removeprefix("edits_inprogress_")
            (name,) = [name for name in exported if name.startswith(f"edits_{first}-")]
            content = exported.pop(name)
            assert path.read_bytes().startswith(content), path
            assert not path.read_bytes()[len(content) :].strip(b"\x00\xff"), path
        elif path.name.startswith("edits_"):
            assert path.read_bytes() == exported.pop(path.name), path
    assert exported == {}


@needs_segments
def test_a_real_name_nodes_segments_come_out_as_they_went_in(uri: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in NAMES[1:]:
        shutil.copy(FOLDER / name, source)
    imported, _ = there_and_back(uri, "real", source, tmp_path / "out", NamespaceInfo(1, "c"))
    assert imported.segments == 3 and imported.ops > 12830
    check_files(source, tmp_path / "out")


@needs_segments
def test_the_dump_of_a_real_segment_is_what_hadoops_viewer_printed() -> None:
    for name in NAMES[1:]:
        dumped = ElementTree.fromstring(bookledger("journal", "dump", "--xml", str(FOLDER / name)).stdout)
        assert [content_of(r) for r in dumped.findall("RECORD")] == [content_of(r) for r in records_of(name)]


@pytest.mark.skipif(
    not SAMPLES, reason="BOOKLEDGER_NAMENODE_SAMPLES names no folder with NameNodes' directories"
)
def test_whole_directories_of_name_nodes_come_out_as_they_went_in(uri: str, tmp_path: Path) -> None:
    currents = [path.parent for path in sorted(Path(SAMPLES).rglob("current/VERSION"))]
    assert currents
    for number, current in enumerate(currents):
        target = tmp_path / str(number)
        imported, _ = there_and_back(uri, f"sample-{number}", current, target)
        assert imported.formatted
        check_files(current, target)


@each_version
def test_a_name_node_starts_on_exported_edits_and_shows_the_namespace(
    uri: str, tmp_path: Path, version: str
) -> None:
    """Its edits stand in its own directory and in a JournalNode's; either makes the same journal."""
    with JournalNode(version, tmp_path / "journal") as journal_node:
        own = (tmp_path / "source" / "name").as_uri()
        both = f"{own},qjournal://{journal_node.address}/ns1"
        source = NameNode(version, tmp_path / "source", edits_dir=both)
        source.format()
        shutil.copytree(source.current, tmp_path / "image")
        with source:
            fs(source, "-mkdir", "-p", "/a/b", "/ü <&>", "/gone")
            dfsadmin(source, "-rollEdits")
            fs(source, "-mv", "/a/b", "/a/moved")
            fs(source, "-rm", "-r", "/gone")
            listing = fs(source, "-ls", "-R", "/")
            source.kill()
        journal_node.kill()
    for name, current in (("name", source.current), ("journal", journal_node.current("ns1"))):
        imported, exported = there_and_back(uri, f"{name}-{version}", current, tmp_path / f"{name}-out")
        assert (imported.formatted, imported.segments, exported.segments) == (True, 2, 2)
        check_files(current, tmp_path / f"{name}-out")
    _check_viewer(version, source.current, tmp_path / "journal-out")
    target = NameNode(version, tmp_path / "target")
    shutil.copytree(tmp_path / "image", target.current)
    for path in (tmp_path / "journal-out").iterdir():
        shutil.copy(path, target.current)
    with target:
        assert paths(fs(target, "-ls", "-R", "/")) == paths(listing)
        fs(target, "-mkdir", "/goes-on")


def _check_viewer(version: str, source: Path, out: Path) -> None:
    """Hadoop's viewer says the same of every exported file as of the one it came from."""
    for path in sorted(p for p in out.iterdir() if p.name.startswith("edits_")):
        first = path.name.removeprefix("edits_").partition("-")[0]
        (origin,) = [*source.glob(f"edits_{first}-*"), *source.glob(f"edits_inprogress_{first}")]
        said = oev(version, path)
        assert said == oev(version, origin)
        dumped = bookledger("journal", "dump", "--xml", str(path)).stdout.decode()
        assert content_of(ElementTree.fromstring(dumped)) == content_of(ElementTree.fromstring(said))
        assert xml_to_edits(version, dumped) == path.read_bytes()


def paths(listing: str) -> list[str]:
    return [line.split(maxsplit=7)[-1] for line in listing.splitlines()]


@each_version
def test_beans_of_a_stock_journal_node_are_spelled_as_ours(tmp_path: Path, version: str) -> None:
    with JournalNode(version, tmp_path) as journal_node:
        url = f"http://127.0.0.1:{journal_node.http_port}/jmx?qry=Hadoop:service=JournalNode,name=JournalNodeInfo"
        status, text = get(url)
    beans = json.loads(text)
    assert status == 200 and len(beans["beans"]) == 1
    assert text.strip() == spelled(beans)
