"""What the lane of a writer to one bookie is told."""

from __future__ import annotations

from bookie.wire import Status


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def acked(self, through: int) -> None:
        self.heard.append(through)

    def written(self, through: int) -> None:
        self.heard.append(("written", through))

    def behind(self, why: str) -> None:
        self.heard.append(("behind", why))

    def caught_up(self) -> None:
        self.heard.append("caught up")

    def failed(self, why: str) -> None:
        self.heard.append(why)

    def refused(self, status: Status, why: str) -> None:
        self.heard.append(status)
