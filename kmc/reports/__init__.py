"""A finished run on one page: what was run, what it cost, whether it can be trusted, and what it found."""
