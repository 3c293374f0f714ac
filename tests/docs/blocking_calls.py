"""For the site's reference: calls of blocking classes, which are made from those of their asyncio twins.

An extension of Griffe, which reads sources: there such a call is an assignment without parameters or a docstring.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class BlockingCalls(griffe.Extension):  # type: ignore[misc, unused-ignore]
    """Takes from the running class all that its source does not show."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if ".blocking" not in cls.path:
            return
        running = getattr(import_module(cls.module.path), cls.name, None)
        for name, call in vars(running).items():
            if name.startswith("_") or not inspect.isfunction(call) or not call.__doc__:
                continue
            if hasattr(call, "__signature__"):
                cls.set_member(name, _function(name, call))
            elif name in cls.members and cls.members[name].docstring is None:
                cls.members[name].docstring = griffe.Docstring(
                    inspect.cleandoc(call.__doc__), parent=cls.members[name]
                )


def _function(name: str, call: Any) -> griffe.Function:
    signature = inspect.signature(call)
    parameters = [
        griffe.Parameter(
            one.name,
            annotation=None if one.annotation is one.empty else str(one.annotation),
            kind=griffe.ParameterKind(one.kind.description),
            default=None if one.default is one.empty else repr(one.default),
        )
        for one in signature.parameters.values()
    ]
    returns = None if signature.return_annotation is signature.empty else str(signature.return_annotation)
    made = griffe.Function(name, parameters=griffe.Parameters(*parameters), returns=returns)
    made.docstring = griffe.Docstring(inspect.cleandoc(call.__doc__), parent=made)
    return made
