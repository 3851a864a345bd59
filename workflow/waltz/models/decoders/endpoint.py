"""Client of a server with an API like OpenAI's: it repeats requests while the server is busy, and
checks replies.

The client of OpenAI's package would take the place of the loop over attempts alone. It reads a
reply of any size and in any encoding into memory, lets each attempt have its own timeout so that a
slow server is never cut off, accepts replies whose fields have other types than declared, and
neither refuses repeated keys nor hides keys that a server repeats. llama.cpp's own paths
(`/completion`, `/props`, `/tokenize`) are not part of it either. So requests are sent by httpx.
"""

import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import ValidationError

from waltz.core.downloads.http_limits import TimeLimit, build_client, read_retry_after
from waltz.core.errors import UserError, get_first_line, shorten_value
from waltz.core.files.json_objects import RepeatedKeyError, parse_json
from waltz.core.redaction import (
    contains_known_secret,
    hide_known_secrets,
    hide_secrets,
    redact_url,
)
from waltz.models.decoders.server_replies import Reply

log = logging.getLogger(__name__)
API_KEY = "WALTZ_API_KEY"
"""Environment variable with the key of a server that needs one."""
ATTEMPTS = 5
"""Maximum number of times that a request is sent."""
FIRST_DELAY = 0.5
"""Seconds before a request is sent again; they double with each attempt."""
BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which a request is sent again."""
NEEDS_KEY = frozenset({401, 403})
"""Statuses of a server that refuses the key, or needs one."""
TIMEOUT = httpx.Timeout(600, connect=10)
"""Seconds for a read, and for the connection."""
REQUEST_SECONDS = 1800.0
"""Maximum number of seconds until the reply to a request is complete, all attempts and waits
included.
"""
LARGEST_REPLY = 1 << 27
"""Maximum number of bytes of a reply; log-probabilities of a vocabulary of 256,000 tokens take half
of this.
"""
SHOWN_LETTERS = 200
"""Maximum number of letters of a server's text in a message."""

AnyReply = TypeVar("AnyReply", bound=Reply)


class RefusedError(UserError):
    """A request that the server does not know or take, or whose reply lacks a field."""


@dataclass(frozen=True)
class RawReply:
    """A reply as it was received.

    Attributes:
        status: Status of HTTP.
        content: The body.
        retry_after: Header that asks to wait; empty without one.
    """

    status: int
    content: bytes
    retry_after: str

    @property
    def is_success(self) -> bool:
        """Whether the status says that the request was carried out."""
        return 200 <= self.status < 300

    def describe(self) -> str:
        """Return the status and the beginning of the body in one line, without secrets."""
        # Secrets are hidden before the text is cut, which might leave a part of one.
        text = " ".join(hide_secrets(self.content.decode(errors="replace")).split())
        return f"status {self.status}: {text[:SHOWN_LETTERS]}"


@dataclass(frozen=True, eq=False)
class Endpoint:
    """The API of a model that a server runs.

    Attributes:
        location: Key of the study, for errors.
        model: Name of the model at the server.
        client: Connection, with the API key.
    """

    location: str
    model: str
    client: httpx.Client

    def post(
        self, path: str, body: Mapping[str, object], kind: type[AnyReply]
    ) -> AnyReply:
        """Return the reply to a request, which is repeated with longer and longer delays while the
        server is busy.

        Args:
            path: Path below the url; below the server's root if it begins with `/`.
            kind: Fields that the reply must have.
        Raises:
            UserError: The server is not reached, refuses the request, or its reply lacks a field.
        """
        return self._request("POST", path, {"model": self.model, **body}, kind)

    def get(self, path: str, kind: type[AnyReply]) -> AnyReply:
        """Return the reply to a request without a body; see `post`."""
        return self._request("GET", path, None, kind)

    @property
    def url(self) -> str:
        """Url of the API, without a slash at its end."""
        return str(self.client.base_url).rstrip("/")

    def _build_address(self, path: str) -> str:
        # llama.cpp's own paths lie next to the API of OpenAI, not below it.
        if path.startswith("/"):
            return self.url.removesuffix("/v1") + path
        return f"{self.url}/{path}"

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        kind: type[AnyReply],
    ) -> AnyReply:
        address = self._build_address(path)
        deadline = time.monotonic() + REQUEST_SECONDS
        attempts = 0
        requested_wait = 0.0
        fault = ""
        while attempts < ATTEMPTS:
            # Before each further attempt: wait twice as long as before, or as long as the server
            # asked for.
            if attempts:
                wait = max(FIRST_DELAY * 2 ** (attempts - 1), requested_wait)
                log.warning(
                    "%s: no reply from %s (%s); attempt %d of %d, the next in %.0f s",
                    self.location,
                    address,
                    fault,
                    attempts,
                    ATTEMPTS,
                    wait,
                )
                if time.monotonic() + wait > deadline:
                    break
                time.sleep(wait)
                requested_wait = 0.0
            attempts += 1
            try:
                reply = self._send(method, address, body, deadline)
            except httpx.RequestError as error:  # no connection, or no complete reply: the server may be starting
                fault = hide_secrets(get_first_line(error) or type(error).__name__)
                continue
            if reply.status in NEEDS_KEY:
                raise self._report_key()
            if reply.is_success:
                return self._read(address, reply.content, kind)
            requested_wait = read_retry_after(reply.retry_after)
            fault = reply.describe()
            if reply.status not in BUSY:
                raise RefusedError(
                    f"{self.location}: {address} refuses the request ({fault}); check url and server"
                )
        raise UserError(
            f"{self.location}: no reply from {address} in {attempts} attempts ({fault}); start the server, or correct"
            " the url"
        )

    def _send(
        self,
        method: str,
        address: str,
        body: Mapping[str, object] | None,
        deadline: float,
    ) -> RawReply:
        """Send a request once, and return its reply.

        Args:
            deadline: Time at which the connection is cut, on the clock of `time.monotonic`.
        Raises:
            httpx.RequestError: No complete reply was received.
        """
        with (
            TimeLimit(
                deadline - time.monotonic(),
                lambda: f"{self.location}: waiting for {self.url}",
            ) as limit,
            self.client.stream(
                method, address, json=body, extensions=limit.extensions
            ) as response,
        ):
            content = self._receive(response)
        return RawReply(
            response.status_code, content, response.headers.get("Retry-After", "")
        )

    def _report_key(self) -> UserError:
        advice = "is not set; set it to the server's key"
        if os.environ.get(API_KEY):
            advice = "is wrong; correct it"
        return UserError(
            f"{self.location}: {self.url} needs an API key: the environment variable {API_KEY} {advice}"
        )

    def _receive(self, response: httpx.Response) -> bytes:
        """Return the body of a reply; its size is limited, since a faulty server may never end it."""
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() != "identity":
            shown = hide_secrets(encoding)[:40]
            raise UserError(
                f"{self.location}: {response.url} replies in the encoding {shown!r}, which was not requested;"
                " correct the url"
            )
        # The body comes in parts, so that one without an end is cut off before it fills the memory.
        content = bytearray()
        for part in response.iter_raw():
            content += part
            if len(content) > LARGEST_REPLY:
                raise UserError(
                    f"{self.location}: the reply of {response.url} has more than {LARGEST_REPLY} bytes; correct the url"
                )
        return bytes(content)

    def _read(self, address: str, content: bytes, kind: type[AnyReply]) -> AnyReply:
        """Return the fields of a reply, with repeated secrets hidden: records and results store
        some fields.
        """
        try:
            # Pydantic takes the last of two values of a key.
            fields = parse_json(content)
            if contains_known_secret(content):
                log.warning(
                    "%s: the server repeats a secret of this process, which is hidden",
                    self.location,
                )
                content = json.dumps(hide_known_secrets(fields)).encode()
            # The original bytes are validated, unless secrets were hidden.
            return kind.model_validate_json(content)
        except RepeatedKeyError as error:
            reason = hide_secrets(get_first_line(error))
            raise UserError(
                f"{self.location}: the reply of {address} is ambiguous ({reason}); correct the url"
            ) from None
        except ValidationError as error:
            raise self._report_field(address, error) from None
        except (
            RecursionError,
            ValueError,
        ) as error:
            # ValueError: no JSON, no UTF-8, a number of 5,000 digits.
            raise self._report_json(address, get_first_line(error)) from None

    def _report_json(self, address: str, reason: str) -> UserError:
        return UserError(
            f"{self.location}: {address} returns no JSON ({reason}); correct the url"
        )

    def _report_field(self, address: str, error: ValidationError) -> UserError:
        """Return the error for a reply that is not JSON or lacks a field."""
        # pydantic lists all faults; the first one suffices for a message of one line.
        fault = error.errors(include_url=False)[0]
        if fault["type"] == "json_invalid":
            return self._report_json(
                address, fault["msg"].removeprefix("Invalid JSON: ")
            )
        field = hide_secrets(".".join(map(str, fault["loc"]))) or "object"
        value = ""
        if fault["type"] != "missing":
            value = f", got {shorten_value(repr(hide_secrets(str(fault['input']))))}"
        return RefusedError(
            f"{self.location}: the reply of {address} has no usable {field} ({fault['msg']}{value}); check that the url"
            " is that of an API like OpenAI's (it ends in /v1)"
        )


def open_client(url: str, model: str, location: str) -> httpx.Client:
    """Return a client of the API at a url, with the API key of the environment.

    Args:
        model: Name of the model, for errors.
        location: Key of the study, for errors.
    Raises:
        UserError: The url or the key is invalid, or the url holds a key, which records and messages
            would show.
    """
    if redact_url(url) != url:
        raise UserError(
            f"{model or 'model'}: the server's url holds a password or key; set {API_KEY} to it instead"
        )
    key = os.environ.get(API_KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{API_KEY}: holds other characters than printable ones of ASCII; set it to the server's key"
        )
    # A compressed reply could be far larger than the bytes that are counted.
    headers = {"Accept-Encoding": "identity"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        return build_client(base_url=url, headers=headers, timeout=TIMEOUT)
    except httpx.InvalidURL as error:
        raise UserError(
            f"{location}: no url of a server ({get_first_line(error)}); correct it"
        ) from None
