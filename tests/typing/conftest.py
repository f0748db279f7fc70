"""Of pytest: the program is for a type checker alone."""

collect_ignore = ["program.py"]
