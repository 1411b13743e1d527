"""`python -m awm_hub` is `awm-hub`."""

import sys

if __name__ == "__main__":
    from awm_hub.cli import main

    sys.exit(main())
