"""Sets of logs in ordinary code."""
