"""The façade over numbers that come again: what Python may call of it."""

from typing_extensions import Buffer

from memreplay.engine.read.column import Column

def rows_back(numbers: Buffer) -> Column: ...
