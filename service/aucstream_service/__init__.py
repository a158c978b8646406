"""The HTTP service of aucstream.

One process, one event loop, one writer thread. The journal is written first, then events are applied in order of
`seq`, then they are acknowledged. Nothing is imported here: `ops.health` and `ops.container` must load only the
standard library.
"""
