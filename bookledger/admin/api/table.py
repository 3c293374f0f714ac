"""The table of the API's paths, from which both the server's routes and the OpenAPI document are generated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from metadata.keys import LEDGER_ID_MAX, NAME_CHARACTERS_MAX
from metadata.records.ledger_record import FRAGMENTS_MAX as FRAGMENTS_OF_A_LEDGER_MAX

from ..http.problems import PROBLEM_TYPE
from . import cluster_state, elections, healing_state, journal_state, ledger_state, log_state
from .cluster_state import Facts
from .metadata_view import LEDGERS_MAX
from .schemas import SCHEMAS
from .search import STATES

PREFIX = "/api/v1"
LEDGERS_DEFAULT = 100
BOOKIES_DEFAULT = 100
MARKS_DEFAULT = 50


@dataclass(frozen=True, slots=True)
class Parameter:
    """A whole number in a request. A parameter in the path has no default, because it is always present."""

    name: str
    about: str
    minimum: int
    maximum: int
    default: int | None = None

    def described(self) -> dict[str, Any]:
        """Returns the parameter's OpenAPI object."""
        schema: dict[str, Any] = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        if self.default is not None:
            schema["default"] = self.default
        return _described(self, schema)

    def read(self, given: Mapping[str, str]) -> int:
        """Reads the parameter from a request. Raises ValueError with the reason if it is invalid."""
        text = given.get(self.name)
        if text is None:
            assert self.default is not None, "the path has it"
            return self.default
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LEDGER_ID_MAX))
        if not is_number or not self.minimum <= int(text) <= self.maximum:
            raise ValueError(f"{self.name} must be a whole number from {self.minimum} to {self.maximum}")
        return int(text)


@dataclass(frozen=True, slots=True)
class TextParameter:
    """A string in a request: one of `choices`, or any string of up to `characters_max` characters; "" if it is absent.
    A parameter in the path is always present."""

    name: str
    about: str
    choices: tuple[str, ...] = ()
    characters_max: int = 1000
    default: str | None = ""

    def described(self) -> dict[str, Any]:
        """Returns the parameter's OpenAPI object."""
        schema: dict[str, Any] = {"type": "string", "maxLength": self.characters_max}
        if self.choices:
            schema = {"type": "string", "enum": list(self.choices)}
        return _described(self, schema)

    def read(self, given: Mapping[str, str]) -> str:
        """Reads the parameter from a request. Raises ValueError with the reason if it is invalid."""
        text = given.get(self.name, self.default or "")
        if self.choices and text and text not in self.choices:
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}")
        if len(text) > self.characters_max:
            raise ValueError(f"{self.name} must not exceed {self.characters_max} characters")
        return text


def _described(one: Parameter | TextParameter, schema: dict[str, Any]) -> dict[str, Any]:
    is_in_path = one.default is None
    return {
        "name": one.name,
        "in": "path" if is_in_path else "query",
        "required": is_in_path,
        "description": one.about,
        "schema": schema,
    }


Ask = Callable[..., Awaitable[Facts | None]]
"""Called with the view and the parameters in their order. Returns None if the object does not exist."""


@dataclass(frozen=True, slots=True)
class Path:
    """One path: its description, its schema and its parameters."""

    path: str
    about: str
    schema: str
    ask: Ask
    parameters: tuple[Parameter | TextParameter, ...] = ()


_LEDGER_ID = Parameter("ledger_id", "A ledger.", 0, LEDGER_ID_MAX)
FIRST_NAME = TextParameter(
    "first", "The first name on the page: `next` of the previous page.", characters_max=NAME_CHARACTERS_MAX
)
_FIRST = Parameter("first", "The first id on the page: `next` of the previous page.", 0, LEDGER_ID_MAX, 0)
STATE = TextParameter("state", "Only ledgers in this state.", choices=STATES)
CUSTOM = TextParameter(
    "custom", "Only ledgers with this custom metadata: KEY, KEY=VALUE, or KEY~PART of the value."
)
BOOKIE = TextParameter(
    "bookie", "Only ledgers with entries on this bookie.", characters_max=NAME_CHARACTERS_MAX
)
ORDER = TextParameter(
    "order",
    "`newest` lists ids in descending order, from `first` downwards; not allowed with searches.",
    choices=(ledger_state.NEWEST,),
)

LOG_NAME = TextParameter("log", "A log.", characters_max=NAME_CHARACTERS_MAX, default=None)
FIRST_SEGMENT = Parameter(
    "first_segment", "The first position: `next_segment` of the previous response.", 0, LEDGER_ID_MAX, 0
)

PATHS = (
    Path("/cluster", "The state of the whole cluster.", "Cluster", cluster_state.cluster),
    Path(
        "/bookies",
        "All bookies by name, including dead ones, a page at a time.",
        "Bookies",
        cluster_state.bookies,
        (
            FIRST_NAME,
            Parameter(
                "limit",
                "Maximum number of bookies on the page.",
                1,
                cluster_state.BOOKIES_MAX,
                BOOKIES_DEFAULT,
            ),
        ),
    ),
    Path(
        "/ledgers",
        "Ledgers by id, a page at a time; a page of search results may be short or empty even if there is a next page.",
        "Ledgers",
        ledger_state.ledgers,
        (
            _FIRST,
            Parameter("limit", "Maximum number of ledgers on the page.", 1, LEDGERS_MAX, LEDGERS_DEFAULT),
            STATE,
            CUSTOM,
            BOOKIE,
            ORDER,
        ),
    ),
    Path(
        "/ledgers/{ledger_id}",
        "One ledger, with its fragments and the copies of each.",
        "Ledger",
        ledger_state.one_ledger,
        (
            _LEDGER_ID,
            Parameter("first_fragment", "Number of fragments to skip.", 0, FRAGMENTS_OF_A_LEDGER_MAX, 0),
        ),
    ),
    Path(
        "/fragments",
        "Ledgers that are marked as under-replicated, and their bad copies.",
        "Fragments",
        healing_state.fragments,
        (
            _FIRST,
            Parameter(
                "limit", "Maximum number of ledgers on the page.", 1, healing_state.MARKS_MAX, MARKS_DEFAULT
            ),
        ),
    ),
    Path("/healing", "The running repairs, and the bytes left to copy.", "Healing", healing_state.healing),
    Path(
        "/logs",
        "Logs by name, a page at a time.",
        "Logs",
        log_state.logs,
        (
            FIRST_NAME,
            Parameter(
                "limit", "Maximum number of logs on the page.", 1, log_state.LOGS_MAX, log_state.LOGS_MAX
            ),
        ),
    ),
    Path(
        "/logs/{log}",
        "One log: its segments over time, its cursors, its leader, and its retention.",
        "Log",
        log_state.one_log,
        (LOG_NAME, FIRST_SEGMENT),
    ),
    Path(
        "/elections",
        "Elections by name, a page at a time: the leader, the term, and the candidates.",
        "Elections",
        elections.elections,
        (
            FIRST_NAME,
            Parameter(
                "limit",
                "Maximum number of elections on the page.",
                1,
                elections.ELECTIONS_MAX,
                elections.ELECTIONS_MAX,
            ),
        ),
    ),
    Path("/journals", "Journals with their acceptors, epochs and lag.", "Journals", journal_state.journals),
)


def openapi(version: str) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "bookledger", "version": version, "description": "A cluster, read-only."},
        "paths": {PREFIX + one.path: {"get": _operation(one)} for one in PATHS},
        "components": {"schemas": SCHEMAS},
    }


def _operation(one: Path) -> dict[str, Any]:
    answers = {
        "200": _answer(one.about, one.schema),
        "403": _answer("The client's certificate does not allow this request.", "Problem"),
        "421": _answer("A loopback port was requested by another host name.", "Problem"),
        "503": _answer("The metadata is unavailable.", "Problem"),
    }
    if one.parameters:
        answers["400"] = _answer("A parameter is invalid.", "Problem")
    if any(parameter.default is None for parameter in one.parameters):
        answers["404"] = _answer("Not found.", "Problem")
    return {
        "summary": one.about,
        "operationId": one.schema.lower(),
        "parameters": [parameter.described() for parameter in one.parameters],
        "responses": dict(sorted(answers.items())),
    }


def _answer(about: str, schema: str) -> dict[str, Any]:
    content_type = PROBLEM_TYPE if schema == "Problem" else "application/json"
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"description": about, "content": {content_type: {"schema": reference}}}
