"""Batch replay: the reader that plans on the driver, and the job that `bookledger replay` runs."""
