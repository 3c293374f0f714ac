"""What is asked of a metadata store, counted for metrics."""
