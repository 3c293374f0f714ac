"""What a creation needs: an id, the bookies that may be chosen, and what is returned."""
