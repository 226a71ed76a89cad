"""``python -m carb_cli``."""

import sys

from carb_cli.main import main

sys.exit(main())
