"""The records kept under the keys, each with the store that reads and changes it."""
