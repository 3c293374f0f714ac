"""Renders templates, with filters for numbers and words, and sets the security headers of every page."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from .stripes import GLYPHS, MEANINGS, MISSING

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""A page loads nothing from other sites, and runs no inline script, because ids and metadata are untrusted."""

STATIC = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("bookledger.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "size": size,
        "took": took,
        "duration": duration,
        "moment": moment,
        "rate": rate,
        "words": lambda text: str(text).replace("_", " "),
    }
    made.globals |= {"away": None, "glyphs": GLYPHS, "meanings": MEANINGS, "missing": MISSING}
    return made


def page(name: str, status: int = 200, *, away: dict[str, Any] | None = None, **values: Any) -> web.Response:
    """Renders a template with these values. `away`: why the metadata is unavailable, and how old the values are."""
    text = ENVIRONMENT.get_template(f"{name}.html").render(page=name, away=away, **values)
    return web.Response(text=text, status=status, content_type="text/html", headers=HEADERS)


async def static(request: web.Request) -> web.Response:
    """Serves a static file."""
    name = request.match_info["name"]
    if name not in STATIC:
        raise web.HTTPNotFound
    body = (files("bookledger.console") / "static" / name).read_bytes()
    return web.Response(body=body, content_type=STATIC[name], charset="utf-8", headers=HEADERS)


def count(number: float | None) -> str:
    """Formats 1234567 as 1,234,567."""
    return "–" if number is None else f"{number:,.0f}"


def rate(number: float) -> str:
    """Formats a rate per second with few digits."""
    return f"{number:.1f}" if 0 < number < 10 else count(number)


def size(number: float | None) -> str:
    """Formats a number of bytes in a suitable unit."""
    if number is None:
        return "–"
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if number < 1024 or unit == "PiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def took(seconds: float | None) -> str:
    """Formats a latency in milliseconds."""
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


def duration(seconds: float | None) -> str:
    """Formats a duration in its two largest units."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def moment(ms: int) -> str:
    """Formats a UTC time. The number comes from a record, so it may be out of range."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "–"


ENVIRONMENT = _environment()
