"""``python -m kmc``: the command line, wherever kmc can be imported."""

import sys

from kmc.cli import main

sys.exit(main())
