"""What the acceptors of a journal have, seen from outside."""
