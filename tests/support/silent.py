"""A program that says one line and then waits for its end."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    print("{}", flush=True)
    sys.stdin.read()
