"""`python -m tests.fuzz.one TARGET [options of libFuzzer] DIRECTORY...`: one target, until told to stop."""

from __future__ import annotations

import sys

import atheris


def main() -> None:
    with atheris.instrument_imports(include=["bookie", "metadata", "qjm_compat", "spark", "tests.fuzz"]):
        from .targets import TARGETS
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target.try_on)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
