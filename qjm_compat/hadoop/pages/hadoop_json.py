"""JSON in the format of Hadoop's `/jmx`: one key per line with spaces around the colon, because scripts search its
lines."""

from __future__ import annotations

import json
from typing import Any

STEP = "  "


def spelled(value: Any, indent: str = "") -> str:
    """Formats like Jackson's default pretty printer: arrays stay on their line, and each field of an object has its
    own."""
    if isinstance(value, dict):
        inner = indent + STEP
        fields = [f"{inner}{json.dumps(name)} : {spelled(one, inner)}" for name, one in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{ }"
    if isinstance(value, list | tuple):
        return f"[ {', '.join(spelled(one, indent) for one in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)
