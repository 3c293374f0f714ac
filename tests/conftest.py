"""Fixtures for the whole test suite."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bookledger.cli import child
from bookledger.cli.config.sections import SECTIONS
from bookledger.cli.main import _GROUPS
from bookledger.cli.processes import bookie_processes
from metadata.settings.environment import variable_of
from tests.support import hangs
from tests.support.etcd import EtcdServer
from tests.support.etcd_program import why_not_sound
from tests.support.heartbeat import Heartbeat
from tests.support.preloaded import ForkedChildren

# How long an example takes says how busy the machine is, and nothing of the code.
# What is searched for anew each time is no judgement of a change: `HYPOTHESIS_PROFILE=drawn` searches.
settings.register_profile("drawn", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("drawn"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Bookies are forked from a process that has imported them: starting takes most of what many a test costs.
setattr(child, "subprocess", ForkedChildren)  # noqa: B010 — it exports none

# Children are interrupted by tests, also where the suite itself was started in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is always there is what is tested; `BOOKLEDGER_EVENT_LOOP=uvloop make test` tests the other.
os.environ.setdefault("BOOKLEDGER_EVENT_LOOP", "asyncio")

# Spark's JVMs live for seconds: what the second compiler, parallel collectors and counters cost them never pays.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData")

# What a developer sets for daemons of their own does not reach those of the tests; variables that tests read stay.
_TABLES = tuple(f"{variable_of(name)}_" for name in (*SECTIONS, *_GROUPS))
for _name in [name for name in os.environ if name.startswith(_TABLES)]:
    del os.environ[_name]

# Without Go or another etcd there is only the package's, which bookies refuse. The tests say so at their beginning.
if WHY_NOT_SOUND := why_not_sound():
    os.environ["BOOKLEDGER_ACCEPT_UNSAFE_ETCD"] = "1"

FOLDERS_FIRST = ("spark", "docs", "examples", "integration", "simulation")
"""In this order: what takes long begins early, so that two processes end together."""


def pytest_report_header() -> str:
    """Is printed once, before the first test."""
    return WHY_NOT_SOUND and f"!!! {WHY_NOT_SOUND}"


def pytest_configure(config: pytest.Config) -> None:
    """In a run on several processes their parent tells how it goes."""
    config.pluginmanager.register(hangs)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Heartbeat())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file runs in one process, and all of Spark does: a session takes longer to start than most tests."""
    from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]

    class SparkTogether(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return "tests/spark" if file.startswith("tests/spark/") else file

    return SparkTogether(config, log)


def pytest_collection_finish() -> None:
    """The garbage collector passes over what was imported: walking through it costs simulations some of their time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whole, for a file runs in one process: its tests share what they started."""
    items.sort(key=_folder)


def _folder(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return FOLDERS_FIRST.index(folder) if folder in FOLDERS_FIRST else len(FOLDERS_FIRST)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metadata of three running bookies, which the tests of a file share."""
    directory = tmp_path_factory.mktemp("cluster")
    uri = f"sqlite://{directory}/metadata.db"
    with bookie_processes(3, directory, uri):
        yield uri


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A running etcd shared by the session. Keep to a prefix of your own, and do not stop it."""
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """A running etcd of the test's own, which it may kill and restart."""
    with EtcdServer(tmp_path) as server:
        yield server


@pytest.fixture
def tls_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """A running etcd that speaks TLS and has a certificate."""
    with EtcdServer(tmp_path, tls=True) as server:
        yield server
