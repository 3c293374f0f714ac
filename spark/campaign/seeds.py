"""Runs the simulator's seeds in child processes, so that a seed that dies or hangs does not affect other seeds.

A layer of the simulator is named `MODULE:ATTRIBUTE`. It is any object with a method `run(seed, tracing)` that returns
an outcome with `probes`, or raises. Executors import it by that name.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Self

SEED_SECONDS_MAX = 60.0
"""A seed that takes longer than this is killed and counts as failed, unless the campaign sets another limit."""

END_SECONDS_MAX = 2.0
"""Maximum time for a process to exit after it has closed its pipe."""

VIOLATION_CHARS_MAX = 10_000

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """The outcome of a seed: its violation or None, its duration, and the rare paths that it took."""

    seed: int
    violation: str | None
    seconds: float
    probes: tuple[str, ...] = ()


def outcomes_of(
    layer_name: str, seeds: range, seconds_max: float = SEED_SECONDS_MAX
) -> Iterator[SeedOutcome]:
    """Yields one outcome for each seed, in order, regardless of what a seed raises and how its process ends.

    If a seed ends its process, or has no outcome within `seconds_max`, that counts as its violation. The seeds after it
    run in a new process.
    """
    layer = layer_named(layer_name)
    left = seeds
    while left:
        with _Runner(layer, left) as runner:
            while left and runner.is_alive:
                outcome = runner.outcome_of(left[0], seconds_max)
                left = left[1:]
                yield outcome


def layer_named(name: str) -> Any:
    """Imports a layer. Raises ValueError if the simulator is missing: it is in the repository, but not in the wheel."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the simulator exists, but one of its dependencies is missing
        raise ValueError(f"{module} cannot be imported ({error}): run this from a checkout") from error


class _Runner:
    """A child process that runs seeds in sequence, and reports each outcome."""

    def __init__(self, layer: Any, seeds: range) -> None:
        context = get_context("fork")  # children inherit the imported layer
        self._outcomes, sender = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run_all, args=(layer, seeds, sender, os.getpid()), daemon=True
        )
        self._process.start()
        sender.close()  # otherwise the child's exit would go unnoticed
        self.is_alive = True

    def outcome_of(self, seed: int, seconds_max: float) -> SeedOutcome:
        """Returns the outcome of this seed, which is the next in sequence. Kills the child if it does not report an
        outcome in time."""
        began = time.monotonic()
        try:
            if self._outcomes.poll(seconds_max):
                outcome = self._outcomes.recv()
                assert isinstance(outcome, SeedOutcome) and outcome.seed == seed
                return outcome
            violation = f"gave no outcome within {seconds_max:g} seconds"
        except (EOFError, OSError):
            self._wait_for_end()
            violation = f"ended its process, {_how(self._process.exitcode)}"
        self.end()
        return SeedOutcome(seed, violation, time.monotonic() - began)

    def _wait_for_end(self) -> None:
        """Waits, with a time limit, for the child to exit. `join` would ignore the limit for a child that hangs with
        its pipes closed."""
        assert self._process.pid is not None
        process = os.pidfd_open(self._process.pid)
        try:
            select.select([process], [], [], END_SECONDS_MAX)
        finally:
            os.close(process)

    def end(self) -> None:
        self.is_alive = False
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._outcomes.close()


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "or hangs with its pipes closed"
    if exit_code < 0:
        return f"by {signal.Signals(-exit_code).name}"
    return f"with exit code {exit_code}"


def _run_all(layer: Any, seeds: range, sender: Connection, parent: int) -> None:
    """The child's main function: runs all seeds. The child is killed when the worker dies, even if a seed hangs."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    for seed in seeds:
        sender.send(_run(layer, seed))


def _run(layer: Any, seed: int) -> SeedOutcome:
    began = time.monotonic()
    try:
        outcome = layer.run(seed, False)
    except BaseException as error:  # anything that a seed raises is its outcome
        return SeedOutcome(seed, _text(error), time.monotonic() - began)
    probes = tuple(sorted(str(probe.value) for probe in outcome.probes))
    return SeedOutcome(seed, None, time.monotonic() - began, probes)


def _text(error: BaseException) -> str:
    """Formats the error as valid UTF-8, which Parquet requires: escapes lone surrogates."""
    said = f"{type(error).__name__}: {error}"[:VIOLATION_CHARS_MAX]
    return said.encode(errors="backslashreplace").decode()
