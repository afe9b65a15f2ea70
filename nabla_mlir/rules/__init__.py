"""The engine of the rules: reverse mode, masks, loops and tapes, custom rules, checkpoints; and the records of the
operations whose rules are that engine. Importing this package loads every record.
"""

# ruff: noqa: F401  # each import registers the records of its module

import nabla_mlir.ops  # not `from nabla_mlir`, whose public names load the rooms above
from nabla_mlir.rules import checkpoint, control, custom_rules, linear_solve, tridiagonal
