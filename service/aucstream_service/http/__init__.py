"""Requests and answers: parsing, limits, admission, queries, preconditions.

The one file that uses uvicorn's private names is here. This room knows no models. May import `settings`,
`storage`, `telemetry` and `errors`; not `journal`.
"""
