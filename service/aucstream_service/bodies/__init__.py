"""From the bytes of a body to checked rows, with the field named when they are refused.

- JSON and NDJSON: lines that differ only in their numbers are read by compiled code and stay one matrix. Of other
  lines those whose names are all known and whose values are numbers are decoded together and read into a block
  once. The rest goes row by row, with the same outcome to the last bit.
- Arrow: no message is read before all of it has come, and what it declares (rows, sizes) is checked before pyarrow
  makes room. Rows that are all numbers stay one matrix. All other rows become the lines of JSON that mean the
  same, and go the way of NDJSON, refusals included.

May import `http`, `journal`, `settings` and below.
"""
