"""Client and HTTP settings for commands, from the settings file, and the HTTP port of commands that run a daemon."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgers.config import ClientConfig

from ...admin.http.config import HttpConfig
from ...admin.http_option import HttpAddress, with_http
from ..terminal import say
from .settings import settings_now

if TYPE_CHECKING:
    from ...admin.autorecovery_health import AutorecoveryHealth
    from ...admin.bookies import Bookies
    from ...admin.offloader_health import OffloaderHealth


def client_config(**more: Any) -> ClientConfig:
    """Returns the settings in `[client]`, overridden by `more`, in which None means not given. Raises
    SettingsUsageError."""
    said = {name: value for name, value in more.items() if value is not None}
    return settings_now().made("client", ClientConfig, **said)


def http_config() -> HttpConfig:
    """Returns the settings in `[http]`. Raises SettingsUsageError."""
    return settings_now().made("http", HttpConfig)


def http_port(
    http: HttpAddress | None,
    daemon: Bookies | AutorecoveryHealth | OffloaderHealth,
    metadata_uri: str,
    *,
    insecure: bool,
    certificates: Path | None = None,
    **more: Any,
) -> AbstractAsyncContextManager[str | None]:
    """Returns `with_http` with the settings in `[http]` and the console of the daemon's cluster; `more` is passed to
    the console."""
    pages = None
    if http is not None:
        from ...console.console import Console  # not needed without an HTTP port

        pages = Console.of_daemon(metadata_uri, certificates, **more)
        daemon.ask_lag = pages.ask_lag
    return with_http(
        http, daemon, insecure=insecure, certificates=certificates, pages=pages, config=http_config()
    )


def print_page_urls(url: str | None) -> None:
    """Prints the URLs of the HTTP pages, if there are any."""
    if url:
        say(f"console: {url}/; metrics and health: {url}/metrics, {url}/readyz")
