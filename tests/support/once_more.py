"""A pytest plugin: a test that failed beside others runs once more by itself, after all others have ended.

The first run (`-p tests.support.once_more`) keeps what each failing test said in pytest's cache. The second one
(`--last-failed --once-more`) is green if all of them pass alone; its last screen names them, since each is to be
mended at its root. More than `TESTS_MAX` of them are no accident of a busy machine: then nothing is run again.
"""

from __future__ import annotations

import pytest

TESTS_MAX = 5
CACHED = "once_more/failures"
FAILURE_LINES_MAX = 12
"""Of each first failure, the last lines: they say what was wrong and where."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--once-more", action="store_true", help="with --last-failed: tell what passes only alone"
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # what workers see is reported by the process that started them
    plugin = SecondRun(config) if config.getoption("once_more") else FirstRun(config)
    config.pluginmanager.register(plugin, "once-more-of-this-run")


class FirstRun:
    """Keeps what each failing test said first."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failures: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failures.setdefault(report.nodeid, _end_of(report.longreprtext))

    def pytest_sessionfinish(self) -> None:
        self._config.cache.set(CACHED, self._failures)


class SecondRun:
    """Refuses too many failures, and names those that came to nothing."""

    def __init__(self, config: pytest.Config) -> None:
        self._failures: dict[str, str] = config.cache.get(CACHED, {})

    def pytest_sessionstart(self) -> None:
        if len(self._failures) > TESTS_MAX:
            pytest.exit(
                f"{len(self._failures)} tests failed, and at most {TESTS_MAX} are run once more", returncode=1
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return
        terminalreporter.section("passed only alone:")
        for name, failure in self._failures.items():
            terminalreporter.write_line(name)
            terminalreporter.write_line("    " + failure.replace("\n", "\n    "))


def _end_of(failure: str) -> str:
    return "\n".join(failure.splitlines()[-FAILURE_LINES_MAX:])
