"""``python -m kmc.cli``."""

import sys

from kmc.cli import main

sys.exit(main())
