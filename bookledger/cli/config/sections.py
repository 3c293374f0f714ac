"""Tables of the settings file that configure components, in addition to the tables with options of commands."""

from __future__ import annotations

import importlib
from typing import NamedTuple


class Section(NamedTuple):
    """A table of the file, the dataclass that it sets, and its description."""

    module: str
    name: str
    description: str

    def kind(self) -> type:
        """Returns the dataclass, which is imported only on demand, because most commands need none of these classes."""
        kind = getattr(importlib.import_module(self.module), self.name)
        assert isinstance(kind, type)
        return kind


SECTIONS = {
    "limits": Section("bookie.limits_config", "Limits", "resources that peers may use on a bookie"),
    "bookie": Section(
        "bookie.config", "BookieConfig", "a bookie, in addition to the options of `bookie run`"
    ),
    "upkeep": Section("bookie.upkeep_config", "UpkeepConfig", "the upkeep of a bookie, and the auditor"),
    "http": Section("bookledger.admin.http.config", "HttpConfig", "the HTTP port of --http, and the console"),
    "logs": Section("bookledger.cli.audit_log", "LogsConfig", "the file of --audit-log"),
    "client": Section("ledgers.config", "ClientConfig", "commands that read and write ledgers, and programs"),
    "journal": Section(
        "qjm_compat.config", "JournalConfig", "writers and readers of journals, and acceptors"
    ),
    "journal-node": Section(
        "qjm_compat.hadoop.node_limits",
        "NodeLimits",
        "resources that NameNodes may use on `journal serve` and `bookie run --journal-node`",
    ),
}
