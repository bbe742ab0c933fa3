"""So that the tests of this folder can share rule_programs.py and random_graphs.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
