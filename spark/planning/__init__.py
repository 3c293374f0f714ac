"""Planning on the driver: options, selection of ledgers, and partitioning into tasks."""
