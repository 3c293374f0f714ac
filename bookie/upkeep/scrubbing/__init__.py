"""Reading everything again, to find what has rotted."""
