"""What the options choose, and how it is cut into tasks; on the driver."""
