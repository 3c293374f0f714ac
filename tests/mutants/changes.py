"""Every small change that can be made to some code, and a draw of them. Pure.

The ways to change are cosmic-ray's (comparisons, numbers, and/or, not, arithmetic, breaks, exceptions, loops that never
run), and one of our own: a statement is left out.
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from parso.python.tree import Keyword

Position = tuple[tuple[int, int], tuple[int, int]]
"""(line, column) of the beginning and the end."""


class LeaveOutStatement(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """A call, or a change of something, does not happen."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """See Operator."""
        parent = getattr(node, "parent", None)
        if parent is None or parent.type != "simple_stmt" or parent.children[0] is not node:
            return
        is_change = node.type == "expr_stmt" and not {".", "["}.isdisjoint(node.children[0].get_code())
        if is_change or node.type == "atom_expr":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """See Operator."""
        return Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        """See Operator."""
        return ()


@dataclass(frozen=True, slots=True)
class Change:
    """One way to change one place of a file: the nth place that this way of changing finds there."""

    file: str
    position: Position
    operator: str
    occurrence: int

    def apply(self, code: str) -> str:
        """The changed code. Raises ValueError where there is no such place."""
        changed = mutate_code(code, OPERATORS[self.operator](), self.occurrence)
        if changed is None:
            raise ValueError(f"{self.file} has no place {self.occurrence} for {self.operator}")
        return str(changed)


def _operators() -> dict[str, type[Operator]]:
    """By name; but for those that need to be told more."""
    found = {name: plugins.get_operator(name) for name in sorted(plugins.operator_names())}
    plain = {name: one for name, one in found.items() if not one.arguments() and "Decorator" not in name}
    return {**plain, "leave out a statement": LeaveOutStatement}


OPERATORS = _operators()


def changes_of(file: str, code: str, lines: Collection[int] | None = None) -> list[Change]:
    """All that can be made, in places that matter; on these lines only where they are given."""
    silent = list(_annotations_and_decorators(code))
    found = []
    for name, operator in OPERATORS.items():
        for occurrence, position in enumerate(_places(code, operator())):
            (line, _), (last_line, _) = position
            is_asked = lines is None or not lines.isdisjoint(range(line, last_line + 1))  # type: ignore[attr-defined]
            if is_asked and not any(begin <= position[0] and position[1] <= end for begin, end in silent):
                found.append(Change(file, position, name, occurrence))
    return found


def draw(changes: Iterable[Change], count: int, seed: int) -> list[Change]:
    """So many of them, each of another place, whatever the ways to change one."""
    at: dict[tuple[str, Position], list[Change]] = defaultdict(list)
    for change in changes:
        at[change.file, change.position].append(change)
    chance = random.Random(seed)
    places = chance.sample(sorted(at), min(count, len(at)))
    return [chance.choice(at[place]) for place in places]


def _places(code: str, operator: Operator) -> Iterator[Position]:
    for node in ast_nodes(get_ast(code)):
        yield from operator.mutation_positions(node)


def _annotations_and_decorators(code: str) -> Iterator[Position]:
    """Places at which nothing is computed when the program runs, or only once."""
    for node in ast.walk(ast.parse(code)):
        found: Sequence[ast.expr | None] = ()
        match node:
            case ast.arg() | ast.AnnAssign():
                found = (node.annotation,)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found = (node.returns, *node.decorator_list)
            case ast.ClassDef():
                found = node.decorator_list
            case ast.Assign(value=value) if isinstance(value, ast.Subscript | ast.BinOp) and _is_type(node):
                found = (value,)
            case ast.Assert() | ast.Raise():
                found = (node,)  # type: ignore[assignment]  # what is said; that it is raised is another place
        for one in found:
            if one is not None and one.end_lineno is not None and one.end_col_offset is not None:
                yield (one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)


def _is_type(node: ast.Assign) -> bool:
    """Whether it makes a name for a type, as `Row = bytes | memoryview` does."""
    (target, *_) = node.targets
    return isinstance(target, ast.Name) and target.id[:1].isupper() and not target.id.isupper()
