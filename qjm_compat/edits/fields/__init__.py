"""Field types of edit log ops, and their encodings."""
