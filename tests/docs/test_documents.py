"""Every command and every program in the documents does what the document says."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

from bookledger.cli.processes import bookie_processes
from tests.docs.console_pictures import PICTURE_BYTES_MAX, PICTURES
from tests.docs.shell import PROMPT, Shell
from tests.docs.test_runbooks import ON_IPV6
from tests.qjm_compat.transfer.made_directories import finalized, version
from tests.support.etcd import EtcdServer

ROOT = Path(__file__).parents[2]
COMMANDS = re.compile(r"^```(console|python)", re.MULTILINE)
CLUSTER = "etcd://etcd1:2379,etcd2:2379,etcd3:2379/prod"
OPERATORS = (
    "docs/first-cluster.md",
    "docs/certificates.md",
    "docs/day-to-day.md",
    "docs/runbooks.md",
)
"""One walk: each page goes on with the cluster of the one before."""

WALKS = (
    ("README.md",),
    ("docs/install.md",),
    ("docs/from-kafka.md",),
    ("docs/logs.md",),
    ("docs/applications.md",),
    OPERATORS,
    ("docs/journals.md",),
    ("docs/spark.md",),
    ("docs/spark-logs.md",),
    ("docs/cold.md",),
)
DOCUMENTS = {page for walk in WALKS for page in walk}
ON_SPARK = {"docs/spark.md", "docs/spark-logs.md"}
NAMING_TESTS = (
    "RELIABILITY.md",
    "ARCHITECTURE.md",
    "docs/rules.md",
    "docs/metadata-rollback.md",
    "CONTRIBUTING.md",
    "tests/README.md",
    "tests/simulation/LAYERS.md",
    "tests/simulation/SCHEDULES.md",
)
WITHOUT_COMMANDS = {
    "docs/backup.md",
    "docs/disks.md",
    "docs/glossary.md",
    "docs/metadata-rollback.md",
    "docs/metrics.md",
    "docs/monitoring.md",
    "docs/operators.md",
    "docs/questions.md",
    "docs/rules.md",
    "docs/scale.md",
    "docs/settings.md",
}
"""They have no console session and no program; other tests read their tables and files."""

TRIED = [
    pytest.param(walk, marks=[pytest.mark.long] if ON_SPARK.intersection(walk) else [], id=" ".join(walk))
    for walk in WALKS
]


class ShellEvaluator:
    """Runs each command of a console session. What is said there of hosts and ports is of this machine instead."""

    def __init__(self, shell: Shell, here: dict[str, str]) -> None:
        self._shell = shell
        self._here = here

    def __call__(self, example: Example) -> None:
        _, *sessions = f"\n{example.parsed}".split(f"\n{PROMPT}")
        assert sessions, "a session begins with a prompt"
        for session in sessions:
            command, _, expected = session.partition("\n")
            self._shell.run(self._on_this_machine(command), self._on_this_machine(expected).strip())
        os.environ["BOOKLEDGER_METADATA"] = self._shell.variable("BOOKLEDGER_METADATA")

    def _on_this_machine(self, command: str) -> str:
        for there, here in self._here.items():
            command = command.replace(there, here)
        return command


@pytest.fixture
def three_hosts(etcd: EtcdServer, tmp_path: Path) -> Iterator[str]:
    """The metadata of a cluster of which two bookies run already."""
    uri = f"etcd://{etcd.endpoint}/three-hosts"
    with bookie_processes(2, tmp_path, uri, prefix="host"):
        yield uri


@pytest.mark.parametrize("walk", TRIED)
def test_every_command_and_program_of_a_document_runs(
    walk: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    here = {
        "bookledger standalone": "bookledger standalone --port 0",
        "127.0.0.1:3181, …": "127.0.0.1:…",
        ". .venv/bin/activate": "true",
        "make wheel": f"(cd {ROOT} && python -m hatchling build -t wheel -d {tmp_path}/dist)",
        "pip install": f"pip install --quiet --no-deps --target {tmp_path}/installed",
        "--host 0.0.0.0 --advertise $(hostname -f) --insecure": "--port 0 --free-space-min 64",
        "--http 0.0.0.0:9181": "--http 127.0.0.1:0",
        **ON_IPV6,
        "/srv/": f"{tmp_path}/srv-",
    }
    if walk == OPERATORS:
        here[CLUSTER] = request.getfixturevalue("three_hosts")
    if ON_SPARK.intersection(walk) and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17: install a JDK, or set JAVA_HOME")
    _a_name_nodes_directory(tmp_path / "name-directory" / "current")
    monkeypatch.setenv("BOOKLEDGER_METADATA", "")
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Shell(tmp_path, {"PATH": path, "COLUMNS": "80"}) as shell, _session_of_its_own():
        console = CodeBlockParser("console", ShellEvaluator(shell, here))
        python = CodeBlockParser("python", PythonEvaluator())
        for page in walk:
            examples = list(Document.parse(str(ROOT / page), console, python).examples())
            for example in examples:
                example.evaluate()
            assert examples, page


def test_every_test_that_a_document_names_is_there() -> None:
    tests = [f"/{path.relative_to(ROOT)}" for path in (ROOT / "tests").rglob("*.py")]
    for document in NAMING_TESTS:
        for named in re.findall(r"`([\w/]*test_\w+\.py)`", (ROOT / document).read_text()):
            assert any(test.endswith(f"/{named}") for test in tests), f"{document} names {named}"


def test_every_link_between_documents_leads_to_a_file_and_a_heading() -> None:
    folders = [
        path for path in ROOT.iterdir() if path.is_dir() and path.name != "build" and path.name[0] != "."
    ]
    documents = [*ROOT.glob("*.md"), *(document for folder in folders for document in folder.rglob("*.md"))]
    broken = []
    for document in documents:
        for target in re.findall(r"\]\((?!\w+://)([^)\s]+)\)", document.read_text()):
            path, _, heading = target.partition("#")
            there = (document.parent / path) if path else document
            if not there.exists() or (heading and heading not in _anchors(there.read_text())):
                broken.append(f"{document.relative_to(ROOT)}: {target}")
    assert documents and not broken


def test_every_picture_is_shown_and_small_enough_to_be_fetched_with_its_document() -> None:
    document = (ROOT / "docs" / "monitoring.md").read_text()
    pictures = sorted(path.name for path in PICTURES.iterdir())
    assert pictures and pictures == sorted(re.findall(r"!\[[^\]]+\]\(pictures/(\S+\.png)\)", document))
    assert [name for name in pictures if (PICTURES / name).stat().st_size > PICTURE_BYTES_MAX] == []


def test_every_document_is_tried() -> None:
    written = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    assert written - WITHOUT_COMMANDS < DOCUMENTS
    assert not [name for name in WITHOUT_COMMANDS if COMMANDS.search((ROOT / name).read_text())]


def _anchors(document: str) -> set[str]:
    """The names by which GitHub links to the headings of a document."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", document, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@contextmanager
def _session_of_its_own() -> Iterator[None]:
    """A Spark session that a document opens ends with it; one that was there stays."""
    if "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._active_spark_context is not None:
        yield
        return
    try:
        yield
    finally:
        if "pyspark" in sys.modules and (
            context := sys.modules["pyspark"].SparkContext._active_spark_context
        ):
            context.stop()


def _a_name_nodes_directory(current: Path) -> None:
    current.mkdir(parents=True)
    version(current)
    finalized(current, 1, 3)
    finalized(current, 4, 6)
