"""The kinds of fields that operations are made of, and their bytes."""
