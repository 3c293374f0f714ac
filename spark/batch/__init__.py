"""Batch replay: the reader that plans on the driver, and the job of `bookledger replay`."""
