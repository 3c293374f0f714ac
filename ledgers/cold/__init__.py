"""The objects in an object store that hold closed ledgers: their format, and how they are read."""
