"""What talks to bookies: streams, lanes, and who replaces one that failed."""
