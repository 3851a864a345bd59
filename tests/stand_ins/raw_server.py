"""A server on the loopback that sends any bytes, fast or slowly."""

import contextlib
import re
import socket
import threading
import time


def read_request(connection):
    """Return all bytes of a request; a connection that is closed earlier would be reset."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(1 << 16)
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    missing = int(length[1]) - len(body) if length else 0
    while missing > 0:
        part = connection.recv(1 << 16)
        received += part
        missing -= len(part)
    return received


class RawServer:
    """Sends `parts` after each request, with `pause` seconds before each but the first, and closes
    the connection.
    """

    def __init__(self, path):
        self.parts: list[bytes] = []
        self.pause = 0.0
        self.requests = 0
        self.received = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/{path}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(
                    target=self.answer, args=(connection,), daemon=True
                ).start()

    def answer(self, connection):
        self.requests += 1
        with connection, contextlib.suppress(OSError):
            self.received = read_request(connection)
            for index, part in enumerate(self.parts):
                if index and self.pause:
                    time.sleep(self.pause)
                connection.sendall(part)
