"""The explorer: how passes change a program, where each operation comes from, and its cost, as JSON and as one page."""

from nabla_mlir.explorer.explanation import Explanation as Explanation
from nabla_mlir.explorer.explanation import compare as compare
from nabla_mlir.explorer.explanation import explain as explain
