"""Small changes of the package's Python code, to see whether a test fails of each."""
