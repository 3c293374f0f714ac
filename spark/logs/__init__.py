"""The data source for logs."""
