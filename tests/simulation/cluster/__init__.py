"""The layer `cluster`: whole clusters of the real classes, under virtual time and faults of every kind."""
