"""`python -m workloads NAME ...`: run one of the workloads."""

from __future__ import annotations

import sys

from .launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
