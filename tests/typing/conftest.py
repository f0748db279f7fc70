"""For pytest: the program is for a type checker only."""

collect_ignore = ["program.py"]
