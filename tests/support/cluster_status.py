"""What `bookledger cluster status` says."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_line import bookledger


def status(uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bookledger("cluster", "status", f"--metadata={uri}", "--json").stdout)
    return found


def why_not_whole(uri: str) -> str:
    return "; ".join(status(uri)["why_not_whole"])
