"""HTTP clients and their time limits: for a complete reply, and for the pause between two attempts."""

import contextlib
import functools
import logging
import netrc
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from waltz.core.redaction import find_netrc

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

LONGEST_WAIT = 300.0
"""Largest number of seconds that waltz waits when a server asks for it."""
MINUTE = 60.0
"""Seconds between two log lines about a request that is waiting."""


class TimeLimit:
    """Time limit that cuts the connection of a request at a deadline and logs a line a minute until
    then.

    A timeout of httpx applies to a single read, so a server that sends a byte now and then would
    never be too slow. The client must come from `build_client`, because a connection that is kept
    from an earlier request cannot be cut.

    Attributes:
        extensions: Options of the request by which httpx reports its connection.
        deadline: Time of the cut, on the clock of `time.monotonic`; callers may move it.
    """

    def __init__(self, seconds: float, describe: Callable[[], str]) -> None:
        """Start the time limit.

        Args:
            seconds: Seconds until the deadline.
            describe: Function that returns the line for the log.
        """
        self.extensions = {"trace": self._remember_socket}
        self.deadline = time.monotonic() + seconds
        self._describe = describe
        self._sockets: list[socket.socket] = []
        self._is_over = False
        self._finished = threading.Event()

    def __enter__(self) -> "TimeLimit":
        """Watch the request until the block ends."""
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        """Stop watching.

        Raises:
            httpx.ReadTimeout: The connection was cut; the reply may look complete although it is
                not.
        """
        import httpx

        self._finished.set()
        if self._is_over and (error is None or isinstance(error, httpx.HTTPError)):
            raise httpx.ReadTimeout("the reply was not complete in time") from None

    def _remember_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Store the sockets of a request, which httpx reports as events."""
        # The second also through a proxy.
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._sockets.append(info["return_value"].get_extra_info("socket"))

    def _watch(self) -> None:
        """Wait for the end of the request, and cut its connections if the deadline comes first."""
        while (remaining := self.deadline - time.monotonic()) > 0:
            if self._finished.wait(min(remaining, MINUTE)):
                return
            _log_once(self._describe(), int(time.monotonic() / MINUTE))
        # Set before the cut, because `__exit__` reads it as soon as the connection is cut.
        self._is_over = True
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@functools.lru_cache(maxsize=16)
def _log_once(line: str, _minute: int) -> None:
    """Log a line once a minute, however many requests are waiting."""
    log.info("%s", line)


def build_client(**options: Any) -> "httpx.Client":
    """Return a client whose requests a `TimeLimit` can cut; it logs no urls, since they may contain
    keys.

    Args:
        options: Options of `httpx.Client`.
    """
    import httpx  # imported here because it takes 0.1 s, and most processes request nothing

    logging.getLogger("httpx").setLevel(logging.WARNING)
    # Without kept connections, each request opens one that `TimeLimit` sees.
    return httpx.Client(
        verify=_build_ssl_context(),
        limits=httpx.Limits(max_keepalive_connections=0),
        **options,
    )


def find_login() -> "httpx.Auth | None":
    """Return the logins in `~/.netrc`, or in the file that `$NETRC` names; None if the file is
    absent or unreadable.
    """
    import httpx

    try:
        return httpx.NetRCAuth(str(find_netrc()))
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError):
        return None


@functools.cache
def _build_ssl_context() -> ssl.SSLContext:
    """Return the context with the certificates by which servers are checked; cached, since reading
    it takes 50 ms.
    """
    import httpx

    return httpx.create_ssl_context()


def read_retry_after(header: str) -> float:
    """Return the seconds that a server asks to wait, at most `LONGEST_WAIT`; 0 without a valid
    request.

    Args:
        header: Value of the header `Retry-After`: seconds, or a date of HTTP.
    """
    from urllib3 import Retry
    from urllib3.exceptions import InvalidHeader

    try:
        # urllib3 reads both forms of the header.
        seconds = Retry().parse_retry_after(header)
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0
    return min(seconds, LONGEST_WAIT)
