"""python -m rlpyt: the same as `rlpyt`."""

import sys

from rlpyt.cli import main

if __name__ == "__main__":
    sys.exit(main())
