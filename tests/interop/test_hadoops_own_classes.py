"""What `make interop` runs, in miniature: the classes of Hadoop's own that take a few minutes at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.classes import CLASSES, HadoopClass
from tests.interop.running import Result, compiled, missing, run_class

WHY_NOT = missing()

pytestmark = [pytest.mark.long, pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("classes"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("each", [pytest.param(c, id=c.short_name) for c in CLASSES if c.is_quick])
def test_a_class_of_hadoops_passes_over_our_daemons(
    each: HadoopClass, stand_ins: Path, tmp_path: Path
) -> None:
    results = run_class(stand_ins, each.name, each.methods, tmp_path / each.short_name)
    assert _not_passed(results) == []
    assert len(results) >= 1


def _not_passed(results: list[Result]) -> list[str]:
    return [f"{result.test}: {result.how}: {result.why}" for result in results if result.how != "passed"]
