"""The explorer's rows, one module per kind."""
