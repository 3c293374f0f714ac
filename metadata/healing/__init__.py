"""What the cluster knows of copies that are missing, of bookies that are, and of who sees to it."""
