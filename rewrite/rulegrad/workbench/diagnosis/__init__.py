"""What the tools `stats` and `bisect` and the checks are made of: programs, counts, and the search for a wrong rule."""
