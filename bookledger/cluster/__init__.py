"""What a cluster is like: who lives, what is whole, what is being done."""
