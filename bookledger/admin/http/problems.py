"""Errors of an HTTP port, in one form: problem documents (RFC 9457), and pages for browsers that ask for HTML.

What goes wrong while a request is answered is raised: `Problem`, or what the HTTP library raises for paths and methods
that are none. `answering_problems` makes the answer of it; `Protocol` answers what never became a request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

if TYPE_CHECKING:
    from ..http_content import ErrorPage

PROBLEM_TYPE = "application/problem+json"

HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

MACHINES = ("/api/", "/healthz", "/readyz", "/metrics")
"""Under these paths nobody is shown a page."""

WHY = {
    HTTPStatus.BAD_REQUEST: "what came cannot be read as a request of HTTP",
    HTTPStatus.NOT_FOUND: "there is no such path; those of the API stand in /api/v1/openapi.json",
    HTTPStatus.METHOD_NOT_ALLOWED: "this path answers GET and HEAD, and changes nothing",
    HTTPStatus.INTERNAL_SERVER_ERROR: "the daemon failed to answer; its log says why",
}
"""Where the error itself does not say it in words of ours."""


class Problem(Exception):
    """Ends a request with this status, and says why. `title`: of the page, where it is more than the status's name."""

    def __init__(self, status: HTTPStatus, why: str, *, title: str = "") -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.title = title or status.phrase


def described(status: HTTPStatus, why: str) -> dict[str, object]:
    """The problem document; its type is that of the status."""
    return {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": why}


def document(status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """The same as an answer."""
    return web.json_response(
        described(status, why),
        status=status,
        content_type=PROBLEM_TYPE,
        headers={**HEADERS, **(headers or {})},
    )


def refusal(why: str) -> bytes:
    """An answer for a connection that there is no place for: whatever it was going to ask."""
    body = json.dumps(described(HTTPStatus.SERVICE_UNAVAILABLE, why)).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable",
        f"Content-Type: {PROBLEM_TYPE}",
        f"Content-Length: {len(body)}",
        "Retry-After: 1",
        "Connection: close",
    )
    return "\r\n".join([*head, "", ""]).encode() + body


def answering_problems(error_page: ErrorPage | None) -> Middleware:
    """Answers what is raised, as a page where there are pages and the client wants HTML."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Problem as problem:
            status, why, title, headers = problem.status, problem.why, problem.title, {}
        except web.HTTPException as error:
            if error.status < HTTPStatus.BAD_REQUEST:
                raise
            status = HTTPStatus(error.status)
            why, title = WHY.get(status, error.reason), status.phrase
            headers = {name: value for name, value in error.headers.items() if name == "Allow"}
        if error_page is not None and _wants_page(request):
            return error_page(status, title, why)
        return document(status, why, headers)

    return answer


class Protocol(RequestHandler):
    """The HTTP library's protocol of one connection, with problem documents for what it cannot make a request of."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # logs it; raises where half an answer is sent
        found = HTTPStatus(status)
        answer = document(found, WHY.get(found, found.phrase))
        answer.force_close()
        return answer


def _wants_page(request: web.Request) -> bool:
    if request.path.startswith(MACHINES):
        return False
    weights = dict(map(_weighed, request.headers.get("Accept", "").split(",")))
    html = weights.get("text/html", 0.0)
    return html > 0 and html >= max(weights.get(PROBLEM_TYPE, 0.0), weights.get("application/json", 0.0))


def _weighed(media_range: str) -> tuple[str, float]:
    """A part of an Accept header, and how much it is wanted; one that is none is not."""
    kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip() == "q":
            try:
                return kind, float(value)
            except ValueError:
                return kind, 0.0
    return kind, 1.0
