"""Copies that are missing are made anew: who notices, who decides, who copies."""
