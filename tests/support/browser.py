"""The system's Chromium without a screen, driven by selenium: what a console looks like to people."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

Chrome = WebDriver

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WHY_NOT = "" if CHROMIUM and DRIVER else "there is no browser: apt-get install chromium chromium-driver"

DESKTOP, PHONE = (1280, 900), (390, 844)
PAGE_SECONDS_MAX = 60


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """With an empty profile, and without anything that asks somebody else."""
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-proxy-server",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(executable_path=DRIVER))
    try:
        driver.set_page_load_timeout(PAGE_SECONDS_MAX)
        yield driver
    finally:
        driver.quit()


def look_as(driver: Chrome, size: tuple[int, int], *, dark: bool = False) -> None:
    """The window's size and the user's wish for a dark page."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wish = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wish})


def complaints(driver: Chrome) -> list[str]:
    """What the page said on its console since this was asked last, as warnings or worse."""
    found: list[dict[str, Any]] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in found if entry["level"] in ("WARNING", "SEVERE")]


def violations(driver: Chrome) -> list[str]:
    """What axe-core finds wrong for those who do not see, or see badly."""
    driver.execute_script(_AXE)
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document).then(done, error => done({violations: [{id: String(error), nodes: []}]}));"
    )
    return [
        f"{one['id']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in found["violations"]
    ]


_AXE = (files("axe_core_python") / "axe.min.js").read_text()
