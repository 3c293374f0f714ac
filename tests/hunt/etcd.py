"""`python -m tests.hunt.etcd VERSION [--seconds N]`: what depends on etcd, over three or one members of this version.

First the tests of the store, of outages, of set-backs and of roles, then chaos for so long. The version is got where
it is not there (`make build/etcd/VERSION/etcd`). The end is that of the first that fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from tests.support.etcd_program import BUILT

VERSIONS = ("3.4.23", "3.5.35", "3.6.16", "3.7.3")
"""The last of each line; of 3.4 the one that Debian has."""

TESTS = (
    "tests/metadata",
    "tests/integration/test_metadata_outage.py",
    "tests/integration/test_metadata_rollback.py",
    "tests/integration/test_etcd_cluster.py",
    "tests/integration/test_etcd_roles.py",
    "tests/integration/test_deleting_by_roles.py",
    "tests/integration/test_tail_outages.py",
)


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.etcd")
    parser.add_argument("version")
    parser.add_argument("--seconds", type=int, default=120, help="of chaos")
    arguments = parser.parse_args(given)
    program = BUILT / arguments.version / "etcd"
    subprocess.run(["make", str(program.relative_to(BUILT.parents[1]))], cwd=BUILT.parents[1], check=True)
    environment = {**os.environ, "BOOKLEDGER_ETCD": str(program)}
    for command in (
        ("-m", "pytest", "-q", "--cache-clear", "-n", "2", "--dist", "loadfile", *TESTS),
        ("-m", "tests.chaos.run", "--seconds", str(arguments.seconds)),
    ):
        ended = subprocess.run([sys.executable, *command], env=environment, check=False)
        if ended.returncode:
            return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
