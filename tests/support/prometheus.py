"""The system's Prometheus and its promtool: what an operator's own would say of what we tell, and of our rules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"
"""Where .ci/prometheus puts them on a machine that has none."""

TOOL_SECONDS_MAX = 60


def _found(name: str) -> str:
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED)) or ""


PROMETHEUS, PROMTOOL = _found("prometheus"), _found("promtool")
WHY_NOT = (
    "" if PROMETHEUS and PROMTOOL else "there is no Prometheus: run .ci/prometheus, or install the package"
)


def promtool(*arguments: str | Path, stdin: str = "", directory: Path = ROOT) -> tuple[int, str]:
    """Its exit code, and what it said."""
    done = subprocess.run(
        [PROMTOOL, *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
        cwd=directory,
    )
    return done.returncode, done.stdout
