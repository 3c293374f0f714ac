"""Calls of the blocking client, derived from the calls of its asyncio twin: same names, parameters and docstrings.

Each function here creates one kind of method for subclasses of `BlockingFacade`. Type checkers, editors, `help` and
`inspect.signature` see the parameters and the docstring of the twin's call. A method with its own code is written by
hand, and copies the twin's docstring with `copy_docstring`.
"""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterable
from functools import partial, update_wrapper
from itertools import chain
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, get_args, get_type_hints

from ..loop_thread import LoopThread, in_pages, iterate

T = TypeVar("T")
Page = TypeVar("Page")


class PagedIterator(chain[T]):
    """Yields the items of pages. Python code runs once per page, not once per item.

    Calling `close` (or using `contextlib.closing`), or dropping the last reference, ends the iteration early. The
    resources that the iteration holds at bookies and in memory are then freed promptly, but the caller does not wait
    for this.
    """

    _pages: Generator[object, None, None]

    @classmethod
    def over(
        cls, pages: Generator[Page, None, None], items_of: Callable[[Page], Iterable[T]]
    ) -> PagedIterator[T]:
        """Yields the items that `items_of` returns for each page."""
        items = cast("PagedIterator[T]", cls.from_iterable(map(items_of, pages)))
        items._pages = pages
        return items

    def close(self) -> None:
        """Ends the iteration. Safe to repeat. Raises ValueError while another thread is waiting for its next item."""
        self._pages.close()
        deque[T](maxlen=0).extend(self)  # releases the rest of its page


P = ParamSpec("P")
C = TypeVar("C")
B = TypeVar("B")
S = TypeVar("S")

ITEMS_PER_HOP = 256
"""Number of items of a listing that are fetched from the loop's thread at a time."""


class BlockingFacade(Generic[C]):
    """The blocking facade of an asyncio object (its twin), and the thread on which the twin runs."""

    def __init__(self, thread: LoopThread, twin: C) -> None:
        self._thread = thread
        self._twin = twin

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, call in vars(cls).items():
            if isinstance(call, FunctionType) and hasattr(call, "__signature__"):
                call.__module__, call.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"

    def __repr__(self) -> str:
        return repr(self._twin)

    def _run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Calls a method of the twin and waits for it."""
        return self._thread.run(call)


def waiting_for(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Returns a method that waits for the twin's call and returns its result."""

    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        done: T = self._run(partial(getattr(self._twin, method.__name__), *arguments, **named))
        return done

    return _like(method, call)


def opening(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], face: Callable[[LoopThread, T], B]
) -> Callable[Concatenate[Any, P], B]:
    """Returns a method that waits for the twin's call and returns a blocking facade of the result."""
    wait = waiting_for(method)

    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> B:
        return face(self._thread, wait(self, *arguments, **named))

    return _like(method, call, face, face.__name__)


def iterating(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    """Returns a method that yields the items of the twin's call, switching to the loop's thread for each item."""

    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> Generator[T, None, None]:
        return iterate(self._thread, getattr(self._twin, method.__name__)(*arguments, **named))

    return _like(method, call, *_yielded(method, Generator, None, None))


def in_items(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
    pages: Callable[Concatenate[Any, P], AsyncGenerator[Page, None]],
    items_of: Callable[[Page], Iterable[T]],
) -> Callable[Concatenate[Any, P], PagedIterator[T]]:
    """Returns a method that yields the items of the twin's call, taken from the pages of another call of the twin."""
    paged = iterating(pages)

    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> PagedIterator[T]:
        return PagedIterator.over(paged(self, *arguments, **named), items_of)

    return _like(method, call, *_yielded(method, PagedIterator))


def listing(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], PagedIterator[T]]:
    """Returns a method that yields the items of the twin's call, fetching `ITEMS_PER_HOP` at a time from the loop's
    thread."""

    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> PagedIterator[T]:
        found: AsyncIterator[T] = getattr(self._twin, method.__name__)(*arguments, **named)
        return PagedIterator.over(iterate(self._thread, in_pages(found, ITEMS_PER_HOP)), iter)

    return _like(method, call, *_yielded(method, PagedIterator))


def asking(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Returns a method for a call that does not wait but may be made only on the twin's thread."""

    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        async def asked() -> T:
            result: T = getattr(self._twin, method.__name__)(*arguments, **named)
            return result

        answer: T = self._run(asked)
        return answer

    return _like(method, call)


def copy_docstring(
    method: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Returns a decorator for a hand-written call that has the parameters of the twin's call. The decorator copies the
    docstring of the twin's call."""

    def decorate(call: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
        call.__doc__ = method.__doc__
        return call

    return decorate


def _yielded(method: Callable[..., Any], kind: Any, *rest: None) -> tuple[object, str]:
    """Returns the type of an iterator of this kind over the items of the twin's call, and the type's name."""
    item = re.fullmatch(r"Async(?:Generator|Iterator)\[(.*?)(?:, None)?\]", method.__annotations__["return"])
    assert item is not None, method
    shown = ", ".join([item[1], *map(str, rest)])
    return kind[get_args(get_type_hints(method)["return"])[0], *rest], f"{kind.__name__}[{shown}]"


def _like(
    method: Callable[..., Any], call: Callable[P, T], returned: object = None, shown: str = ""
) -> Callable[P, T]:
    """Gives `call` the name, parameters, return type and docstring of the twin's call. If `shown` is given, the return
    type is `returned` instead, shown as `shown`."""
    update_wrapper(call, method)
    del call.__wrapped__  # type: ignore[attr-defined]  # mocks, and other code that unwraps it, would await it
    signature = inspect.signature(method)
    # Resolved, because the method's annotations use names of its own module.
    call.__annotations__ = get_type_hints(method)
    if shown:
        signature = signature.replace(return_annotation=shown)
        call.__annotations__["return"] = returned
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
