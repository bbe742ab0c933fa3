"""The parts of the tools `stats` and `bisect` and of the checks: programs, counts, and the search for a wrong rule."""
