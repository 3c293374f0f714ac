"""Client and HTTP settings for commands, from the settings file."""

from __future__ import annotations

from typing import Any

from ledgers.config import ClientConfig

from ...admin.http.config import HttpConfig
from .settings import settings_now


def client_config(**more: Any) -> ClientConfig:
    """`[client]`, with what the command says itself, None for nothing. Raises BadSettings."""
    said = {name: value for name, value in more.items() if value is not None}
    return settings_now().made("client", ClientConfig, **said)


def http_config() -> HttpConfig:
    """`[http]`. Raises BadSettings."""
    return settings_now().made("http", HttpConfig)
