"""A bug that was found, with the smallest plan that shows it, so that it never comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .planted import Break


@dataclass(frozen=True, slots=True)
class Found:
    """What happened, in words; the plan; the bug, and the rule that it breaks with it.

    `bug` plants it again: the plan must find it, and hold without. None where it cannot be planted.
    """

    what: str
    plan: Any
    bug: Break | None = None
    rule: str | None = None
