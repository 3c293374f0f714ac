"""The examples in the docstrings of the packages run."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator

import pytest

from bookledger import LedgerClient
from bookledger.cli.processes import bookie_processes

ELSEWHERE = '"sqlite:///var/lib/bookledger/metadata.db"'


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that has a closed ledger 1."""
    directory = tmp_path_factory.mktemp("bookies")
    uri = f"sqlite://{directory}/metadata.db"
    with bookie_processes(3, directory, uri), LedgerClient(uri) as client:
        with client.create_ledger(ledger_id=1) as writer:
            writer.append(b"there")
        yield uri


def example_of(module: str) -> str:
    """The first paragraphs of the docstring that are indented."""
    doc = inspect.getdoc(importlib.import_module(module))
    assert doc is not None
    _, _, rest = doc.partition("\n\n    ")
    lines = []
    for line in f"    {rest}".splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


@pytest.mark.parametrize("module", ["bookledger", "ledgers", "qjm_compat"])
def test_the_example_of_a_package_runs(module: str, uri: str) -> None:
    example = example_of(module)
    assert ELSEWHERE in example
    exec(compile(example.replace(ELSEWHERE, repr(uri)), module, "exec"), {})
