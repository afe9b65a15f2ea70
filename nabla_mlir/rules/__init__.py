"""The engine of the rules: reverse mode, masks, loops and tapes, custom rules, checkpoints; and the records of the
operations whose rules are that engine. Importing this package loads every record.
"""

import nabla_mlir.ops  # noqa: F401  (not `from nabla_mlir`, whose public names load all that is above)
from nabla_mlir.rules import checkpoint, control, custom_rules, linear_solve, tridiagonal

# The modules that hold records, one family each.
FAMILIES = (checkpoint, control, custom_rules, linear_solve, tridiagonal)
