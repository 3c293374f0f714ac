"""What `from bookledger import …` gives, when, and what stands in its way."""

from __future__ import annotations

import importlib
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from bookledger import errors

PACKAGES = ("bookledger", "bookledger.aio", "bookledger.errors", "ledgers", "qjm_compat", "spark", "metadata")
NAMES_MAX = 40
"""What one may have to look through to find what a program needs."""

IMPORT_SECONDS_MAX = 0.05
RUNS = 5


def python(code: str, **run: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **run)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_of_a_package_can_be_imported(name: str) -> None:
    package = importlib.import_module(name)
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert set(package.__all__) == {name for name in dir(package) if not name.startswith("__")}


def test_bookledger_has_what_most_programs_need_and_no_errors() -> None:
    public = importlib.import_module("bookledger").__all__
    assert len(public) < NAMES_MAX
    assert {"LedgerClient", "QuorumJournalManager", "session_on", "aio", "errors"} < set(public)
    assert not set(public) & set(importlib.import_module("bookledger.errors").__all__)


def test_bookledger_errors_has_every_error_of_the_client_of_journals_and_of_the_metadata() -> None:
    public = importlib.import_module("bookledger.errors").__all__
    for package in ("ledgers", "ledgers.elections", "ledgers.logs", "qjm_compat", "metadata"):
        module = importlib.import_module(f"{package}.errors")
        defined = {
            name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__
        }
        assert {name for name in defined if isinstance(vars(module)[name], type)} <= set(public)


@pytest.mark.parametrize(
    ("kind", "one"),
    [
        (errors.NotFound, errors.NoSuchLedger(7)),
        (errors.NotFound, errors.NoSuchEntry(7, 8, 6)),
        (errors.NotFound, errors.JournalNotFormatted("ns1")),
        (errors.AlreadyExists, errors.LedgerExists(7)),
        (errors.AccessDenied, errors.Unauthorized(7)),
        (errors.TakenOver, errors.LedgerFenced(7, "recovered")),
        (errors.TakenOver, errors.StaleEpoch()),
        (errors.Unavailable, errors.NotEnoughBookies("a ledger", {})),
        (errors.Unavailable, errors.JournalUnavailable()),
        (errors.Unconfirmed, errors.LedgerFenced(7, "recovered")),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else type(one).__name__,
)
def test_a_handler_of_a_kind_of_errors_gets_those_of_every_package(
    kind: type[Exception], one: Exception
) -> None:
    with pytest.raises(kind) as caught:
        raise one
    assert caught.value is one


def test_an_install_without_sources_says_what_it_lacks(tmp_path: Path) -> None:
    package = tmp_path / "sourceless"
    package.mkdir()
    source = package / "__init__.py"
    source.write_text("from metadata.public_names import lazily\n__getattr__ = lazily(__name__)\n")
    py_compile.compile(str(source), cfile=str(package / "__init__.pyc"))
    source.unlink()
    done = python("import sourceless; sourceless.Name", cwd=tmp_path)
    assert "ImportError: sourceless is installed without its source" in done.stderr


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


WITHOUT_SPARK = """
import sys; sys.modules['pyspark'] = None; import importlib.util as u; find = u.find_spec
u.find_spec = lambda name, package=None: None if name == 'pyspark' else find(name, package)
"""


@pytest.mark.parametrize(
    ("code", "classes"),
    [
        ("import bookledger; help(bookledger)", ("LedgerClient", "WriteHandle")),
        ("import ledgers; help(ledgers)", ("LedgerClient", "WriteHandle")),
        ("from bookledger import errors; help(errors)", ("LedgerFenced", "NotFound")),
        (WITHOUT_SPARK + "import bookledger; help(bookledger)", ("LedgerClient",)),
    ],
    ids=["bookledger", "ledgers", "errors", "without spark"],
)
def test_help_shows_the_classes(code: str, classes: tuple[str, ...]) -> None:
    shown = python(code).stdout
    assert all(f"class {name}(" in shown for name in classes)
    assert WITHOUT_SPARK not in code or "class LedgerDataSource(" not in shown


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
