"""``python -m kmc.cli``."""

import sys

from kmc.cli.main import main

sys.exit(main())
