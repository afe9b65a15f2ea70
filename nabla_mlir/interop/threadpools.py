"""The thread pool of nabla_mlir as a pool of threadpoolctl, which is an optional dependency."""

from __future__ import annotations

import functools

from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime import threads


@functools.cache
def register() -> None:
    """Lets threadpoolctl see and limit the threads of modules; their `user_api` and `internal_api` are "iree".

    The size of a pool does not change. A limit applies to modules that are loaded and functions that are compiled while it is set.

    Raises:
      DeployError: threadpoolctl is not installed.

    Example:
      >>> import threadpoolctl
      >>> register()
      >>> with threadpoolctl.threadpool_limits(1, user_api="iree"):
      ...     [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "iree"]
      [1]
    """
    try:
        import threadpoolctl
    except ImportError:
        raise DeployError("register requires threadpoolctl, got none.", help="pip install threadpoolctl") from None

    class Pools(threadpoolctl.LibController):
        """The threads of IREE's runtime, in the form that threadpoolctl expects of a library."""

        user_api = internal_api = "iree"
        filename_prefixes = ("_runtime.",)

        def get_num_threads(self) -> int:
            return threads.cores()

        def set_num_threads(self, num_threads: int) -> None:
            threads.limit(num_threads)

        def get_version(self) -> str:
            from iree.runtime.version import VERSION

            return str(VERSION)

    threadpoolctl.register(Pools)
