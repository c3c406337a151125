"""What streamlit runs: a file, no module, so it finds its package by place, in a checkout or in the wheel."""

import importlib
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

sys.path.insert(0, str(PACKAGE.parent))
importlib.import_module(f"{PACKAGE.name}.shell").main()
