"""A daemon's HTTP port, asked without the proxies of the environment."""

from __future__ import annotations

import urllib.error
import urllib.request

from bookledger.cli.processes import BookieProcess

NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str) -> tuple[int, str]:
    try:
        with NO_PROXY.open(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class HttpBookie(BookieProcess):
    """One with an HTTP port."""

    url = ""

    def await_ready(self) -> None:
        told = self.child.hear()
        self._port = int(told["address"].rsplit(":", 1)[1])
        self.url = told["http"]
