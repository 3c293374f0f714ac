"""`bookledger bench`: what is measured, how, and beside what."""
