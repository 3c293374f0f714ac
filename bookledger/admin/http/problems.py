"""Errors of an HTTP port, in one form: problem documents (RFC 9457), or pages for browsers that request HTML.

Errors that occur while a request is handled are raised: `Problem`, or the HTTP library's errors for unknown paths and
methods. `answering_problems` turns them into responses; `Protocol` responds to data that is not a valid request.
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
"""Paths whose errors are never HTML pages."""

WHY = {
    HTTPStatus.BAD_REQUEST: "this is not a valid HTTP request",
    HTTPStatus.NOT_FOUND: "this path does not exist; /api/v1/openapi.json lists the paths of the API",
    HTTPStatus.METHOD_NOT_ALLOWED: "this path supports only GET and HEAD",
    HTTPStatus.INTERNAL_SERVER_ERROR: "the daemon failed to answer; its log has the reason",
}
"""Explanations for errors for which our code does not give a reason."""


class Problem(Exception):
    """Ends a request with this status and reason. `title`: the page's title, if it differs from the status's name."""

    def __init__(self, status: HTTPStatus, why: str, *, title: str = "") -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.title = title or status.phrase


def described(status: HTTPStatus, why: str) -> dict[str, object]:
    """Returns the content of the problem document. Its type is `about:blank`: the problem has no meaning beyond its
    status."""
    return {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": why}


def document(status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Returns the problem document as a response."""
    return web.json_response(
        described(status, why),
        status=status,
        content_type=PROBLEM_TYPE,
        headers={**HEADERS, **(headers or {})},
    )


def refusal(why: str) -> bytes:
    """Returns the response for a refused connection, which is the same for any request."""
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
    """Returns middleware that turns raised errors into responses: HTML pages if the daemon has them and the client asks
    for HTML, otherwise problem documents."""

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
    """The HTTP library's protocol of one connection; answers data that is not a request with a problem document."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        # Logs the error, and raises if part of a response has already been sent.
        super().handle_error(request, status, exc, message)
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
    """Parses a part of an Accept header into the media range and its weight, which is 0 if invalid."""
    kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip() == "q":
            try:
                return kind, float(value)
            except ValueError:
                return kind, 0.0
    return kind, 1.0
