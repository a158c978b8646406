"""What several algorithms share: states, programs, base classes.

May import `_base`, `features`, `native`, `kernels` and below; no algorithm.
"""
