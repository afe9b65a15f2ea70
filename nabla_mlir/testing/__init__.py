"""Tools that test records, passes and IR, here and in other projects: laws, random programs, and .mlir files under pytest.

`check_record` and `check_pass` need NumPy only; `nabla_mlir.testing.plugin` needs pytest, lit and filecheck, which `pip
install 'nabla-mlir[testing]'` installs.
"""

from nabla_mlir.testing.checks import Costs, LawError, check_laws, check_pass, check_record
from nabla_mlir.testing.programs import random_module

__all__ = ["Costs", "LawError", "check_laws", "check_pass", "check_record", "random_module"]
