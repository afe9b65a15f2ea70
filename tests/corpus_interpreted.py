"""The adapter of the corpus with our interpreter in the place of IREE: the same IR, read in milliseconds."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from corpus_adapter import CorpusAdapter as CorpusAdapter

import nabla_mlir as nm

nm.set_execution("interpret")
