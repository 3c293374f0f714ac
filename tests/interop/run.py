"""`make interop`: Hadoop's test classes over our journal daemons, one after the other, and a table of how they went.

python -m tests.interop.run [CLASS[#METHOD] …]
"""

from __future__ import annotations

import sys

from tests.interop.classes import CLASSES, HadoopClass
from tests.interop.running import ROOT, Result, compiled, missing, run_class

BUILD = ROOT / "build" / "interop"


def main(wanted: list[str]) -> int:
    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    chosen = {name.split("#")[0]: name.split("#")[1:] for name in wanted}
    unknown = chosen.keys() - {known.short_name for known in CLASSES}
    if unknown:
        print(
            f"{', '.join(sorted(unknown))}: not among {', '.join(c.short_name for c in CLASSES)}",
            file=sys.stderr,
        )
        return 2
    classes = compiled(BUILD / "classes")
    print(f"{'class':36} {'passed':>6} {'failed':>6} {'inapplicable':>12} {'seconds':>7}")
    failed = 0
    for each in CLASSES:
        if not chosen or each.short_name in chosen:
            results = run_class(
                classes, each.name, chosen.get(each.short_name) or each.methods, BUILD / each.short_name
            )
            _tell(each, results)
            failed += _count(results, "failed")
    print("all as it should be" if not failed else f"{failed} failed; the logs are in {BUILD}/<class>/log")
    return 1 if failed else 0


def _tell(each: HadoopClass, results: list[Result]) -> None:
    seconds = sum(result.milliseconds for result in results) // 1000
    counts = (_count(results, "passed"), _count(results, "failed"), _count(results, "skipped"))
    print(f"{each.short_name:36} {counts[0]:6} {counts[1]:6} {counts[2]:12} {seconds:7}", flush=True)
    for result in results:
        if result.how == "failed":
            print(
                f"    {result.test}: {result.why.strip() or 'failed'}".replace("\n", "\n        "), flush=True
            )
        elif result.how == "skipped":
            print(f"    {result.test}: {result.why}", flush=True)


def _count(results: list[Result], how: str) -> int:
    return sum(result.how == how for result in results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
