"""What `from bookledger import …` gives, when, and what stands in its way."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("bookledger", "ledgers", "qjm_compat", "spark", "metadata")
IMPORT_SECONDS_MAX = 0.05
RUNS = 5


def python(code: str, **run: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **run)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_of_a_package_can_be_imported(name: str) -> None:
    package = importlib.import_module(name)
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert set(package.__all__) <= set(dir(package))


def test_bookledger_has_every_public_name_of_the_packages_it_composes() -> None:
    composed = {public for name in PACKAGES[1:] for public in importlib.import_module(name).__all__}
    assert set(importlib.import_module("bookledger").__all__) == composed


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(ImportError, match="cannot import name 'LedgerKlient'"):
        exec("from bookledger import LedgerKlient")


def test_importing_bookledger_is_quick_and_brings_no_grpc() -> None:
    code = (
        "import sys, time; began = time.process_time(); import bookledger; "
        "print(time.process_time() - began); assert not {'grpc', 'google.protobuf', 'pyspark'} & set(sys.modules)"
    )
    runs = [python(code) for _ in range(RUNS)]
    assert [run.stderr for run in runs] == [""] * RUNS
    assert min(float(run.stdout) for run in runs) < IMPORT_SECONDS_MAX


@pytest.mark.parametrize("package", ["bookledger", "ledgers"])
def test_help_shows_the_classes(package: str) -> None:
    shown = python(f"import {package}; help({package})").stdout
    assert "class LedgerClient(" in shown
    assert "class LedgerFenced(" in shown
    assert "class UnconfirmedError(" in shown


WITHOUT_SPARK = """
import sys; sys.modules['pyspark'] = None; import importlib.util as u; find = u.find_spec
u.find_spec = lambda name, package=None: None if name == 'pyspark' else find(name, package)
"""


def test_help_is_there_without_spark() -> None:
    shown = python(WITHOUT_SPARK + "import bookledger; help(bookledger)")
    assert "class LedgerClient(" in shown.stdout
    assert "class LedgerDataSource(" not in shown.stdout


def test_without_spark_all_else_is_imported_and_what_needs_it_says_so() -> None:
    done = python(WITHOUT_SPARK + "from bookledger import *; print(LedgerClient, open_store)")
    assert (done.stderr, done.returncode) == ("", 0)
    for package in ("bookledger", "spark"):
        done = python(WITHOUT_SPARK + f"from {package} import register")
        assert (
            "register needs pyspark, which is not installed: pip install 'bookledger[spark]'" in done.stderr
        )


@pytest.mark.parametrize(
    ("own", "imported"),
    [
        ("metadata.py", "from bookledger import LedgerClient"),
        ("metadata.py", "from ledgers import LedgerClient"),
        ("metadata.py", "from qjm_compat import QuorumJournalManager"),
        ("metadata.py", "from spark import session_on"),
        ("metadata/__init__.py", "import ledgers"),
        ("bookie.py", "from ledgers.aio import LedgerClient"),
        ("ledgers.py", "from bookledger import LedgerClient"),
        ("ledgers.py", "from qjm_compat import QuorumJournalManager"),
        ("ledgers.py", "from qjm_compat import edits"),
        ("ledgers.py", "from spark import register"),
        ("ledgers/__init__.py", "import qjm_compat.aio"),
        ("spark.py", "from bookledger import session_on"),
        ("qjm_compat.py", "from bookledger import QuorumJournalManager"),
    ],
)
def test_a_users_own_module_of_the_same_name_is_named_in_the_error(
    own: str, imported: str, tmp_path: Path
) -> None:
    module = tmp_path / own
    module.parent.mkdir(exist_ok=True)
    module.write_text("print('not ours')\n")
    script = tmp_path / "script.py"
    script.write_text(imported + "\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"ImportError: {module} is imported in place of bookledger's own package"), done
    assert "rename it" in error
    assert done.stdout == ""


def test_a_users_own_spark_does_not_disturb_who_does_not_use_ours(tmp_path: Path) -> None:
    (tmp_path / "spark.py").write_text("from bookledger import LedgerClient; print(LedgerClient.__name__)\n")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "spark.py")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "LedgerClient\n"


def test_python_m_bookledger_beside_a_users_own_metadata_names_it(tmp_path: Path) -> None:
    (tmp_path / "metadata.py").touch()
    command = [sys.executable, "-m", "bookledger", "bookie", "info", "--metadata=sqlite:///tmp/none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{tmp_path}/metadata.py is imported in place of" in done.stderr.splitlines()[-1]
