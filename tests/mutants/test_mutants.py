"""Changes are drawn as their seed says, made where they matter, and tried on a copy that is whole again afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .changes import Change, changes_of, draw
from .suites import TABLE, Suite, suite_of
from .trials import Copy, End

ROOT = Path(__file__).parents[2]

CODE = """from __future__ import annotations

Size = int | None


class Counter:
    def __init__(self) -> None:
        self.count: int | None = 0
        self.asked = True

    def add(self, by: int = 1) -> bool:
        if by > 5 and self.asked:
            self.told()
            return False
        self.count = by + 2
        return True

    def told(self) -> None:
        assert self.asked is True
"""


def test_changes_are_made_where_something_is_computed_and_nowhere_else() -> None:
    lines = {change.position[0][0] for change in changes_of("counter.py", CODE)}
    assert lines == {8, 9, 11, 12, 13, 14, 15, 16}
    assert {c.position[0][0] for c in changes_of("counter.py", CODE, lines={12, 15})} == {12, 15}


def test_every_change_changes_the_code_and_leaves_it_python() -> None:
    for change in changes_of("counter.py", CODE):
        changed = change.apply(CODE)
        assert changed != CODE
        compile(changed, "counter.py", "exec")


def test_a_draw_is_of_different_places_and_the_same_for_the_same_seed() -> None:
    changes = changes_of("counter.py", CODE)
    drawn = draw(changes, 6, seed=3)
    assert drawn == draw(changes, 6, seed=3) != draw(changes, 6, seed=4)
    assert len({change.position for change in drawn}) == 6
    places = {change.position for change in changes}
    assert len(draw(changes, 10_000, seed=3)) == len(places)


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="has no place 99"):
        Change("counter.py", ((1, 0), (1, 1)), "core/NumberReplacer", 99).apply(CODE)


@pytest.mark.parametrize(
    ("test", "end"),
    [
        ("assert Counter().add(6) is False", End.NOTICED),
        ("assert Counter().add(5) is True", End.SURVIVED),
        ("assert Counter().add(6) is False or __import__('time').sleep(600)", End.HUNG),
    ],
)
def test_what_becomes_of_a_change_is_told_and_the_tree_is_whole_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, end: End
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "counter.py").write_text(CODE)
    command = [sys.executable, "-c", f"from counter import Counter\n{test}"]
    monkeypatch.setattr(Suite, "commands", [command])
    monkeypatch.setattr("tests.mutants.trials.PATIENCE_SECONDS", 1.0)
    copy = Copy.of(tree, tmp_path / "copy")
    tested = Suite("counter.py", ())
    (change,) = [
        c for c in changes_of("counter.py", CODE) if c.operator == "core/ReplaceComparisonOperator_Gt_Lt"
    ]
    assert copy.tried(change, tested, copy.seconds_unchanged(tested)) is end
    assert (copy.root / "counter.py").read_text() == CODE


def test_a_tree_whose_tests_fail_anyway_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(Suite, "commands", [[sys.executable, "-c", "raise SystemExit('no')"]])
    with pytest.raises(RuntimeError, match="fails on the tree as it is"):
        Copy.of(tmp_path / "tree", tmp_path / "copy").seconds_unchanged(Suite("x", ()))


def test_what_tests_what_is_there() -> None:
    for one in TABLE:
        assert (ROOT / one.path).is_dir(), one
        assert all((ROOT / test).exists() for test in one.tests), one
    assert suite_of("ledgers/protocol/append_pipeline.py") is TABLE[0]
    assert suite_of("bookledger/cli/main.py") is None
