"""Extracts one useful line from Spark's errors, without the Python and Java stack traces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ledgers.errors import LedgerError

OUR_PACKAGES = frozenset({"bookie", "ledgers", "metadata", "qjm_compat", "spark"})
"""Errors defined in these packages explain what is wrong with ledgers or options."""

HINTS = (
    (
        r"Could not parse Master|Master must either",
        "a master is local[*], spark://HOST:PORT, yarn or k8s://https://HOST:PORT",
    ),
    (
        r"FileSystem not found|No FileSystem for scheme|UnsupportedFileSystemException",
        "give Spark that file system's jar, as with --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION",
    ),
    (r"No space left on device", "free space there, or write to another place"),
    (
        r"Mkdirs failed|ParentNotDirectory|Permission denied|AccessControlException",
        "choose a writable place",
    ),
    (
        r"Cannot run program",
        "set PYSPARK_PYTHON to a Python that the driver and all executors have, with bookledger's dependencies",
    ),
    (
        r"No module named",
        "executors need bookledger's dependencies: install them there, and let PYSPARK_PYTHON name that Python",
    ),
    (r"OutOfMemoryError", "give it more memory, as with --conf spark.driver.memory=4g"),
)
"""Advice by patterns in Spark's messages."""


def in_one_line(error: BaseException | str) -> LedgerError:
    """Returns one of our own errors, with its class and full message, if there is one; otherwise, the most useful line
    from Spark.

    If several of our own errors were raised, the result is the first one, not an error from the cleanup that followed.
    """
    text = str(error)
    said = _of_python(text) or _of_java(text)
    if not said and isinstance(error, BaseException):
        said = type(error).__name__
    return LedgerError("; ".join([*said.splitlines(), *_hints(said)[:1]]))


def _hints(said: str) -> list[str]:
    return [hint for pattern, hint in HINTS if re.search(pattern, said)]


class _Link(Enum):
    """How an error in a text is chained to the one before it."""

    NONE = ""
    CAUSE = "The above exception was the direct cause of the following exception:"
    DURING = "During handling of the above exception, another exception occurred:"


_LINKS = {link.value: link for link in _Link if link.value}


@dataclass(slots=True)
class _Raised:
    """One error in a Python traceback."""

    module: str
    name: str
    lines: list[str]
    link: _Link
    where: str

    @property
    def is_ours(self) -> bool:
        return self.module.partition(".")[0] in OUR_PACKAGES

    @property
    def text(self) -> str:
        message = "\n".join(line for line in self.lines if line.strip())
        if message:
            return f"{self.name}: {message}"
        return self.name if self.is_ours or not self.where else f"{self.name} in {self.where}"


_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)')
_NAMED = re.compile(r"^((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*)(?:: (.*))?$")
_OF_A_GROUP = re.compile(r"^\s*(?:\+ Exception Group |[|+](?:[-+]+ \d+ -+)?(?: |$)|\+-+$)")
_END = re.compile(r"^(?:\s+at |Driver stacktrace:|JVM stacktrace:|Caused by: |\s*SQLSTATE: |=== |\+-)")


def _of_python(text: str) -> str:
    """Returns the relevant error of a Python traceback in the text; empty if there is none."""
    chosen: _Raised | None = None
    for raised in _raised_in(text):
        follows = chosen is not None and chosen.is_ours
        if not follows or (raised.is_ours and raised.link is _Link.CAUSE):
            chosen = raised
    return chosen.text if chosen else ""


def _raised_in(text: str) -> list[_Raised]:
    found: list[_Raised] = []
    where, link, expects, current = "", _Link.NONE, False, False
    for raw in text.splitlines():
        line = _OF_A_GROUP.sub("", raw)
        if line.endswith(_HEADER):
            where, expects, current = "", True, False
        elif line in _LINKS:
            link, current = _LINKS[line], False
        elif expects and (frame := _FRAME.match(line)):
            where = f"{frame[1]}, line {frame[2]}"
        elif (expects or line != raw) and (named := _NAMED.match(line)) and _is_error(named, expects):
            found.append(_Raised(named[1], named[2], [named[3] or ""], link, where))
            link, expects, current = _Link.NONE, False, True
        elif _END.match(line):
            current = False
        elif current:
            found[-1].lines.append(line)
    return found


def _is_error(named: re.Match[str], expected: bool) -> bool:
    """Returns whether a line names an error: a line after a traceback always does; a line in an exception group,
    without a traceback, does if its module is in OUR_PACKAGES."""
    return expected or named[1].partition(".")[0] in OUR_PACKAGES


_JAVA_ERROR = re.compile(r"^(?:: |Caused by: )?(?:[a-z]\w*\.)*(\w+(?:Exception|Error)): (.+)$")
_NOISE = re.compile(
    r"^(?:$|\tat |\s*\.\.\. \d+ more|WARNING: |Using Spark's default|Setting default log|To adjust logging"
    r"|An error occurred while calling|\S+ \S+ (?:WARN|INFO|DEBUG) )"
)


def _of_java(text: str) -> str:
    """Returns the innermost cause for which there is advice, or else the innermost one that has a message; if there is
    none, the first useful line."""
    lines = [line for line in text.splitlines() if not _NOISE.match(line)]
    if any(line.startswith("Caused by: ") for line in lines) or text.startswith("An error occurred while"):
        causes = [f"{found[1]}: {found[2]}" for found in map(_JAVA_ERROR.match, lines) if found]
        if causes:
            return next((cause for cause in reversed(causes) if _hints(cause)), causes[-1])
    first = next(iter(lines), "").removeprefix(": ").removeprefix('Exception in thread "main" ')
    plain = _JAVA_ERROR.match(first)
    return f"{plain[1]}: {plain[2]}" if plain else first
