"""Kernels on bytes: svmlight, lines of CSV and lines of JSON that hold numbers.

Numbers are rounded correctly. A line of another form is left to the Python reader. May import `kernels` only.
"""
