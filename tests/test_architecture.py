"""The rules of the house: the contracts in pyproject.toml hold, and each fails when it is broken."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("bookledger", "spark", "qjm_compat", "ledgers", "bookie", "metadata")
RULES = ROOT / "docs" / "rules.md"
RULE = re.compile(r"^\| \*\*(\w+)\*\* \|.*\| (`[^|]*`) \| \[`[^`]*`\]\(\.\./tests/(\S+)\) \|$", re.MULTILINE)
"""A row of its tables: the rule, its modules, its test."""

FORBIDDEN_IMPORTS = {
    "floors": ("ledgers/entry.py", "import qjm_compat.errors"),
    "circles": ("spark/planning/partition.py", "from .. import source"),
    "floors-of-metadata": ("metadata/store.py", "from . import settle"),
    "floors-of-bookie": ("bookie/log/format.py", "from ..index import places"),
    "floors-of-upkeep": ("bookie/upkeep/collecting/collector.py", "from ..scrubbing import segment_check"),
    "floors-of-ledgers": ("ledgers/reading/read_handle.py", "from ..writing import answers"),
    "floors-of-qjm-compat": ("qjm_compat/acceptor/journal.py", "from ..manager import proposer_effects"),
    "floors-of-acceptor": ("qjm_compat/acceptor/programs/acceptor_memory.py", "from .. import edits_cache"),
    "floors-of-transfer": (
        "qjm_compat/transfer/inspection/inspector.py",
        "from ..checking import journal_findings",
    ),
    "floors-of-hadoop": ("qjm_compat/hadoop/wire/rpc_framing.py", "from ..server import node"),
    "floors-of-edits": ("qjm_compat/edits/fields/field_types.py", "from .. import op"),
    "floors-of-spark": ("spark/planning/ranges.py", "from ..executors import planned_ledgers"),
    "floors-of-the-command-line": ("bookledger/cli/journal/show.py", "from ..ledger import entries"),
    "floors-of-bookledger": ("bookledger/admin/http/server.py", "from ...console import rates"),
    "floors-of-the-console": ("bookledger/console/live.py", "from . import stripes"),
    "floors-of-the-api": ("bookledger/admin/api/cluster_state.py", "from . import table"),
    "wire": ("ledgers/entry.py", "import bookie.storage.core"),
    "public-names-of-ledgers": ("qjm_compat/errors.py", "import ledgers.writing.append_futures"),
    "edit-log": ("spark/executor_access.py", "import qjm_compat.manager.proposer_effects"),
    "generated-records": ("metadata/store_factory.py", "from .records import records_pb2"),
    "generated-etcd": ("metadata/store_factory.py", "from .etcd import etcd_pb2"),
    "generated-wire": ("bookie/wire/columnar_entries.py", "from . import bookie_pb2"),
    "generated-hadoop": ("qjm_compat/aio.py", "from .hadoop.wire import hadoop_pb2"),
    "purity": ("ledgers/protocol/append_pipeline.py", "import time"),
    "purity-of-programs": ("qjm_compat/manager/proposer.py", "import random"),
    "tests": ("bookie/errors.py", "import tests.support"),
}
"""What each contract is there to stop: a line that breaks it, and where it would stand."""

CONFLICTS = {"KeyConflict", "KeyExists", "NoSuchKey", "VersionConflict"}
SWAPS = {"change_record", "swap"}
"""Compare-and-swaps that tell of a conflict by what they return."""

TRIES_AGAIN = {
    "metadata/settled_writes.py": "the one way: `until_changed`, and what is built on it",
    "qjm_compat/acceptor/programs/acceptor_memory.py": "`until_swapped`, the same for programs, which do no I/O",
    "ledgers/recovering/recovery_run.py": "as often as the client's own setting says",
}
"""Where a loop may try a compare-and-swap again after a conflict, and why."""


def lint_imports(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-logo", "--no-cache", *options]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


def test_every_import_keeps_the_rules_of_the_house() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


def test_every_contract_is_broken_by_one_of_the_tests_below() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["id"] for contract in contracts} == set(FORBIDDEN_IMPORTS)


@pytest.fixture(scope="module")
def copied_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for package in (*PACKAGES, "tests/support"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "tests" / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


@pytest.mark.parametrize("contract", FORBIDDEN_IMPORTS)
def test_a_contract_stops_the_import_it_is_there_to_stop(contract: str, copied_tree: Path) -> None:
    place, line = FORBIDDEN_IMPORTS[contract]
    module = copied_tree / place
    as_it_was = module.read_text()
    module.write_text(as_it_was.replace("from __future__ import annotations\n", f"\n{line}\n", 1))
    assert module.read_text() != as_it_was
    try:
        done = lint_imports(copied_tree, f"--contract={contract}")
    finally:
        module.write_text(as_it_was)
    assert done.returncode == 1, done.stdout
    assert "1 broken" in done.stdout


def test_each_rule_has_one_file_of_tests_that_states_it_and_no_test_is_named_after_anything_else() -> None:
    """It says so in its first lines, "W4: …". The simulator's layers check all rules at once: LAYERS.md."""
    rules = {rule for rule, *_ in RULE.findall(RULES.read_text())}
    named: dict[str, list[Path]] = {rule: [] for rule in rules}
    stated: dict[str, list[Path]] = {rule: [] for rule in rules}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text, place = path.read_text(), path.relative_to(ROOT / "tests")
        for rule in () if place.parts[0] == "simulation" else _rules_named(text):
            named.setdefault(rule, []).append(place)
        for rule in _rules_stated(text):
            stated.setdefault(rule, []).append(place)
    assert named == stated
    assert {rule: places for rule, places in stated.items() if rule not in rules or len(places) != 1} == {}


def test_the_page_of_rules_names_the_modules_and_the_tests_that_are_there() -> None:
    for rule, modules, test in RULE.findall(RULES.read_text()):
        assert rule in _rules_stated((ROOT / "tests" / test).read_text()), f"{rule}: {test}"
        named = re.findall(r"`([\w/.]+)`", modules)
        assert named and [name for name in named if not (ROOT / name).exists()] == [], rule


def _rules_named(text: str) -> set[str]:
    return set(re.findall(r"def test_([A-Z]\d+[a-z]?)_", text))


def _rules_stated(text: str) -> list[str]:
    return re.findall(r"^([A-Z]\d+): ", ast.get_docstring(ast.parse(text)) or "", re.MULTILINE)


def test_a_compare_and_swap_is_tried_again_after_a_conflict_in_one_way() -> None:
    """Further loops have their change passed to `metadata.settled_writes.change` or `until_changed`."""
    loops = [
        str(path)
        for path in _modules()
        for loop in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(loop, ast.For | ast.AsyncFor | ast.While) and any(map(_meets_conflicts, ast.walk(loop)))
    ]
    assert sorted({*loops} - TRIES_AGAIN.keys()) == []


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n try: await replace()\n except VersionConflict: pass",
        "for _ in tries:\n try: await replace()\n except (KeyExists, errors.NoSuchKey): continue",
        "for _ in tries:\n with suppress(KeyConflict): return await replace()",
        "for _ in range(CONFLICTS_MAX): pass",
        "while True:\n if (yield from me.swap(state)): return",
    ],
)
def test_a_loop_that_tries_a_compare_and_swap_again_is_recognised(loop: str) -> None:
    assert any(map(_meets_conflicts, ast.walk(ast.parse(loop))))


def _meets_conflicts(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=ast.expr() as caught):
            return bool(_names_in(caught) & CONFLICTS)
        case ast.Call(func=ast.Name(id="suppress")):
            return bool(_names_in(node) & CONFLICTS)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in SWAPS or "CONFLICTS_MAX" in _names_in(node)
    return False


def _names_in(node: ast.AST) -> set[str]:
    return {
        found.id if isinstance(found, ast.Name) else found.attr
        for found in ast.walk(node)
        if isinstance(found, ast.Name | ast.Attribute)
    }


def _modules() -> list[Path]:
    found = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return [path for path in found if not path.stem.endswith("_pb2")]
