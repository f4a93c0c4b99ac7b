"""Python interface to finding repeated numbers."""

from typing_extensions import Buffer

from memreplay.engine.read.column import Column

def rows_back(numbers: Buffer) -> Column: ...
