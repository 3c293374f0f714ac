"""What the clients meet: network, disks, metadata, bookies, and the faults of all of them."""
