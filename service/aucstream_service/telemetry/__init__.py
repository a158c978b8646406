"""Log lines and histograms.

The log is written by a thread of its own. No line holds features, labels, ids of events or keys. May import
`errors`; not `storage`.
"""
