"""The runtime of artifacts: it loads a .vmfb and calls its functions on arrays. Needs only NumPy and IREE's runtime.

    module = load("hvp.vmfb")
    print(module)
    y = module.hvp(params, v, data)

`Module` checks and flattens the arguments of a call, by the manifest. `Executable`, below it, accepts flat lists of arrays.
"""

from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device, device, pooled
from nabla_mlir.runtime.executable import Executable, Function
from nabla_mlir.runtime.interrupts import time_limit
from nabla_mlir.runtime.module import Module, load
from nabla_mlir.runtime.storage import save_artifact

__all__ = ["Array", "Device", "Executable", "Function", "Module", "device", "load", "pooled", "save_artifact", "time_limit"]
