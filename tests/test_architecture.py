"""Who may import whom, and which parts stay pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("metadata", "bookie", "ledgers", "qjm_compat", "spark", "bookledger")

ALLOWED = {
    "metadata": frozenset(),
    "bookie": frozenset({"metadata"}),
    "ledgers": frozenset({"metadata", "bookie.wire"}),
    "qjm_compat": frozenset({"metadata", "ledgers"}),
    "bookledger": frozenset(PACKAGES),
    "spark": frozenset({"metadata", "ledgers", "qjm_compat.batch", "qjm_compat.edits", "qjm_compat.errors"}),
}

COMPOSITION_ROOT = ROOT / "bookledger"

PURE = (
    "bookie/storage/core.py",
    "bookie/index/ledger_state.py",
    "bookie/log/format.py",
    "bookie/wire/columns.py",
    "bookie/wire/sealing.py",
    "ledgers/protocol/append.py",
    "ledgers/integrity/crc_blocks.py",
    "ledgers/integrity/digest.py",
    "ledgers/protocol/effects.py",
    "ledgers/protocol/fenced_reads.py",
    "ledgers/protocol/page_read.py",
    "ledgers/protocol/pending.py",
    "ledgers/protocol/placement.py",
    "ledgers/protocol/quorum.py",
    "ledgers/protocol/recovery.py",
    "ledgers/protocol/striping.py",
    "qjm_compat/acceptor/edits_cache.py",
    "qjm_compat/acceptor/programs/effects.py",
    "qjm_compat/acceptor/programs/epochs.py",
    "qjm_compat/acceptor/programs/machine.py",
    "qjm_compat/acceptor/programs/manifest.py",
    "qjm_compat/acceptor/programs/memory.py",
    "qjm_compat/acceptor/programs/recovery.py",
    "qjm_compat/acceptor/programs/segments.py",
    "qjm_compat/acceptor/programs/storage.py",
    "qjm_compat/acceptor/programs/transitions.py",
    "qjm_compat/batch.py",
    "qjm_compat/manager/channel.py",
    "qjm_compat/manager/effects.py",
    "qjm_compat/manager/proposer.py",
    "qjm_compat/manager/recovery_source.py",
    "qjm_compat/manager/segments_seen.py",
    "qjm_compat/requests.py",
    "spark/stream/offsets.py",
    "spark/planning/ranges.py",
    "spark/stream/gaps.py",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "qjm_compat" / "edits").rglob("*.py"))),
)

IMPURE_MODULES = frozenset(
    {
        "asyncio",
        "grpc",
        "lmdb",
        "logging",
        "os",
        "random",
        "socket",
        "sqlite3",
        "subprocess",
        "tenacity",
        "threading",
        "time",
    }
)

GENERATED_IMPORTERS = {
    "records_pb2": {
        "bookie_registry.py",
        "cluster.py",
        "journal_record.py",
        "ledger_ids.py",
        "ledger_record.py",
        "lives.py",
    },
    "etcd_pb2": {"store.py", "channel.py", "watch.py"},
    "bookie_pb2": {"codec.py"},
}


def sources(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if not path.stem.endswith("_pb2")]


def imports(path: Path) -> Iterator[str]:
    """Absolute names of what a module imports."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(parts[: len(parts) - node.level]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def ours(name: str) -> bool:
    return name.split(".")[0] in PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_the_table_allows(package: str) -> None:
    for path in sources(package):
        if path.is_relative_to(COMPOSITION_ROOT):
            continue
        for name in filter(ours, imports(path)):
            allowed = {package, *ALLOWED[package]}
            assert any(name == one or name.startswith(one + ".") for one in allowed), f"{path} imports {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_of_the_product_imports_tests(package: str) -> None:
    for path in sources(package):
        assert not [name for name in imports(path) if name.split(".")[0] == "tests"], path


@pytest.mark.parametrize("name", PURE)
def test_a_pure_machine_has_no_input_output_clock_or_chance_of_its_own(name: str) -> None:
    found = {imported.split(".")[0] for imported in imports(ROOT / name)} & IMPURE_MODULES
    # Chance may come in as an argument: the type of it may be named.
    assert found <= ({"random"} if name == "ledgers/protocol/placement.py" else set())


@pytest.mark.parametrize("package", PACKAGES)
def test_generated_code_is_imported_only_by_the_codec_beside_it(package: str) -> None:
    for path in sources(package):
        for name in imports(path):
            for generated, importers in GENERATED_IMPORTERS.items():
                if name.endswith(generated):
                    assert path.name in importers, f"{path} imports {generated}"


def test_no_module_grows_past_four_hundred_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for package in PACKAGES
        for path in sources(package)
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}
