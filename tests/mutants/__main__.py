"""Plants small changes and says which of them no test notices.

    python -m tests.mutants ledgers/protocol                 forty changes, drawn by a seed that is printed
    python -m tests.mutants bookie/storage/core.py --seed 7 --count 100
    python -m tests.mutants HEAD~3                           of the lines changed since this commit

Each survivor is printed as a diff. The last line is `mutants=N noticed=N hung=N survived=N seed=N`; the exit code is 1
if one survived. Kill each with a test, or explain why it changes nothing that anybody could notice.
"""

from __future__ import annotations

import argparse
import difflib
import re
import secrets
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from queue import SimpleQueue

from .changes import Change, changes_of, draw
from .suites import Suite, suite_of
from .trials import Copy, End

ROOT = Path(__file__).parents[2]
PRODUCT = ("metadata", "bookie", "ledgers", "qjm_compat", "spark", "bookledger")
COUNT_DEFAULT = 40
SEED_MAX = 10**6


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description="Which small changes does no test notice?")
    parser.add_argument("what", help="a file or folder of the product, or a commit")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(SEED_MAX))
    parser.add_argument("--count", type=int, default=COUNT_DEFAULT)
    parser.add_argument("--processes", type=int, default=cpu_count() or 1)
    arguments = parser.parse_args()
    changes = draw(_candidates(arguments.what), arguments.count, arguments.seed)
    groups = _by_tests(changes)
    print(f"== {len(changes)} changes of {arguments.what}, seed {arguments.seed}", flush=True)
    ends: Counter[End] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for n in range(arguments.processes):
            copies.put(Copy.of(ROOT, Path(scratch, str(n))))
        for tested, group in groups.items():
            ends.update(_tried(tested, group, copies, arguments.processes))
    counts = " ".join(f"{end}={ends[end]}" for end in End)
    print(f"mutants={len(changes)} {counts} seed={arguments.seed}")
    return 1 if ends[End.SURVIVED] else 0


def _candidates(what: str) -> list[Change]:
    path = ROOT / what
    if path.exists():
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        wanted: Mapping[str, Collection[int] | None] = {str(one.relative_to(ROOT)): None for one in files}
    else:
        wanted = _changed_since(what)
    return [
        change
        for file, lines in wanted.items()
        if file.startswith(PRODUCT) and not file.endswith("_pb2.py")
        for change in changes_of(file, (ROOT / file).read_text(), lines)
    ]


def _changed_since(commit: str) -> dict[str, set[int]]:
    """The lines of each file that are not as they were."""
    told = subprocess.run(
        ["git", "diff", "-U0", "--no-ext-diff", commit, "--", *(f"{name}/*.py" for name in PRODUCT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        sys.exit(f"{commit!r} is neither a path nor a commit: {told.stderr.strip()}")
    lines: dict[str, set[int]] = defaultdict(set)
    file = ""
    for line in told.stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ ").removeprefix("b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            lines[file].update(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    return {file: those for file, those in lines.items() if file != "/dev/null"}


def _by_tests(changes: list[Change]) -> dict[Suite, list[Change]]:
    groups: dict[Suite, list[Change]] = defaultdict(list)
    for change in changes:
        tested = suite_of(change.file)
        if tested is None:
            sys.exit(f"tests/mutants/suites.py does not say what tests {change.file}: add a line")
        groups[tested].append(change)
    return groups


def _tried(tested: Suite, changes: list[Change], copies: SimpleQueue[Copy], processes: int) -> list[End]:
    copy = copies.get()
    seconds = copy.seconds_unchanged(tested)
    copies.put(copy)
    print(f"   {tested.path}: {len(changes)} changes, {seconds:.0f} s each", flush=True)

    def try_one(change: Change) -> End:
        copy = copies.get()
        try:
            end = copy.tried(change, tested, seconds)
        finally:
            copies.put(copy)
        if end is End.SURVIVED:
            print(_told(change), flush=True)
        return end

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(try_one, changes))


def _told(change: Change) -> str:
    code = (ROOT / change.file).read_text()
    lines = difflib.unified_diff(
        code.splitlines(), change.apply(code).splitlines(), change.file, change.operator, lineterm="", n=1
    )
    return "\n".join(("survived:", *lines))


if __name__ == "__main__":
    sys.exit(main())
