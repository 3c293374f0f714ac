"""Prints which modules are long and which folders are wide, for a reviewer: `make check` ends with it."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from statistics import median

PACKAGES = ("metadata", "bookie", "ledgers", "qjm_compat", "spark", "bookledger")
LONG_LINES = 350
WIDE_MODULES = 13


def main() -> None:
    listed = subprocess.run(["git", "ls-files", *PACKAGES], capture_output=True, text=True, check=True).stdout
    paths = [Path(name) for name in listed.split() if name.endswith(".py") and not name.endswith("_pb2.py")]
    lines = {path: len(path.read_text().splitlines()) for path in paths if path.name != "__init__.py"}
    print(
        f"{len(lines)} modules in {len(paths) - len(lines)} packages; median {median(lines.values()):g} lines"
    )
    for path, count in sorted(lines.items(), key=lambda item: -item[1]):
        if count > LONG_LINES:
            print(f"  {count} lines: {path}")
    for folder, count in Counter(path.parent for path in lines).most_common():
        if count > WIDE_MODULES:
            print(f"  {count} modules: {folder}")


if __name__ == "__main__":
    main()
