"""Notes that bookies keep of the ledgers that they serve, and the records that are made again from them."""
