"""JSON as Hadoop's `/jmx` spells it, a key a line with spaces around the colon: scripts look for lines in it."""

from __future__ import annotations

import json
from typing import Any

STEP = "  "


def spelled(value: Any, indent: str = "") -> str:
    """As Jackson's default pretty printer does: arrays go on in their line, the fields of objects have one each."""
    if isinstance(value, dict):
        inner = indent + STEP
        fields = [f"{inner}{json.dumps(name)} : {spelled(one, inner)}" for name, one in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{ }"
    if isinstance(value, list | tuple):
        return f"[ {', '.join(spelled(one, indent) for one in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)
