"""`bookledger bench`: benchmarks of appends and reads."""
