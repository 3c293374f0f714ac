"""What the metadata knows of ledgers' copies in object stores."""
