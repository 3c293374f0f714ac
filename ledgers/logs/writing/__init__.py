"""Writing to a log: take-over, segments that follow each other, records that are not confirmed yet."""
