"""Measurements of a bookie's storage that take too long for the tests: `make measure WHAT=…`."""
