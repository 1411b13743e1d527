"""`python -m awm_hub` is `awm-hub`."""

import sys

from awm_hub.cli import main

if __name__ == "__main__":
    sys.exit(main())
