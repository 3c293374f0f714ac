"""The pages of the site: every document of the repository at its own path, and a reference made from the docstrings.

`make site` runs this, then MkDocs on what it has written: build/site/pages.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from metadata.public_names import homes_of

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "site" / "pages"
LINK = re.compile(r"(\]\()(?!\w+://|#)([^)\s#]+)")

REFERENCE = {
    "client": ("The client", "bookledger", ("ledgers", "metadata")),
    "journals": ("Journals", "bookledger", ("qjm_compat",)),
    "spark": ("Spark", "bookledger", ("spark",)),
    "asyncio": ("The clients for asyncio", "bookledger.aio", ("ledgers", "qjm_compat")),
    "errors": ("Errors", "bookledger.errors", ("",)),
}
"""Each page of the reference: its title, the module that has the names, and the packages that they come from."""


def documents() -> Iterator[Path]:
    folders = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and path.name not in ("build", "dist") and path.name[0] != "."
    ]
    yield from ROOT.glob("*.md")
    for folder in folders:
        yield from folder.rglob("*.md")


def copied(document: Path) -> None:
    """With the files that it links to. A link to a folder leads to the page of the folder."""

    def linked(found: re.Match[str]) -> str:
        target = (document.parent / found[2]).resolve()
        if target.is_dir() and (target / "README.md").exists():
            return f"{found[1]}{found[2].rstrip('/')}/README.md"
        if target.is_file() and target.suffix != ".md":
            there = PAGES / target.relative_to(ROOT)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, there)
        return found[0]

    page = PAGES / document.relative_to(ROOT)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(LINK.sub(linked, document.read_text()))


def reference(title: str, module: str, packages: Iterable[str]) -> Iterator[str]:
    """A page with the public names of a module that these packages bring."""
    named = importlib.import_module(module)
    yield f"# {title}\n"
    yield f"`from {module} import …`\n"
    for name, home in homes_of(module).items():
        value = getattr(named, name)
        if home.startswith(tuple(packages)) and hasattr(value, "__qualname__"):
            yield f"::: {value.__module__}.{value.__qualname__}\n"


def write() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    for document in documents():
        copied(document)
    (PAGES / "reference").mkdir()
    for page, (title, module, packages) in REFERENCE.items():
        text = "\n".join(reference(title, module, packages))
        (PAGES / "reference" / f"{page}.md").write_text(text)


if __name__ == "__main__":
    os.chdir(ROOT)
    write()
