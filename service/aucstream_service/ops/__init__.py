"""The process: start and stop, the server, the container's entry point, the health check, fsck, the OpenAPI document.

The highest room: may import every other. Nothing is imported here, and `health.py` and `container.py` import only
the standard library.
"""
