"""The bookie's log: the bytes of a record, the segment files, the thread that makes them durable."""
