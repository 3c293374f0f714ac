"""What `journal fsck` looks at, and what it finds."""
