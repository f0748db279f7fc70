"""``python -m kmc``: the command line."""

import sys

from kmc.cli import main

sys.exit(main())
