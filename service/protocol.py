"""uvicorn's HTTP protocol with a problem document where the bytes are not HTTP."""

from __future__ import annotations

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.problems import BAD_REQUEST, CONTENT_TYPE, TYPE_PREFIX


class Protocol(HttpToolsProtocol):
    """httptools, with this service's answer to what it cannot parse."""

    def on_message_begin(self) -> None:
        """Begin a request; an answer that nobody reads can be ended by its handler."""
        super().on_message_begin()
        self.scope["aucstream.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request and close the connection."""
        body = msgspec.json.encode(
            {
                "type": TYPE_PREFIX + BAD_REQUEST.type,
                "title": BAD_REQUEST.title,
                "status": BAD_REQUEST.status,
                "detail": msg,
                "errors": [],
                "request_id": "-",
            }
        )
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
            % (CONTENT_TYPE, len(body), body)
        )
        self.transport.close()
