"""Compiled functions on arrays: no classes, no validation, no I/O."""
