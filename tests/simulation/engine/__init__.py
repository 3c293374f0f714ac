"""What every layer shares: time, chance, plans made small, campaigns, and bugs that must be found."""
