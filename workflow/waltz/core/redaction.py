"""Removal of secrets from messages and files: parts of urls that may be keys, and the values of
known secrets.

Known secrets are the values of environment variables whose names end in KEY, TOKEN, SECRET or
PASSWORD, the keys in urls of the environment, the token of the hub's login, and the passwords of
netrc.
"""

import base64
import functools
import hashlib
import html
import json
import logging
import netrc
import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, quote_plus, unquote

HIDDEN = "<hidden>"
SHORTEST_SECRET = 6
"""Smallest length of a secret that is hidden in texts: shorter values, such as `true`, occur in
ordinary words.
"""
SHORTEST_IN_DATA = 8
"""Smallest length of a secret that is hidden in data, where replacing an ordinary word would change
a result.
"""
SHORTEST_BASE64 = 8
"""Smallest number of base64 characters by which an encoded secret is recognized."""
SECRET_NAME = re.compile(r"(?i)((^|[^a-z])(api_?)?key|token|secret|password|passwd)$")
"""Pattern of the names of environment variables, and of keys in files, whose values are secrets."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]+|[/\\]{2,}|")
"""Pattern of the scheme of a url with its slashes; `git@host:path` has no scheme."""
AT = re.compile("@|%40")
"""Separator of user and host, also escaped."""
DIGEST = re.compile("sha256-[0-9a-f]{8}")
"""Pattern of the digest that replaces a query or fragment in the results of `name_url`."""
URL_START = r"(?:[A-Za-z][A-Za-z0-9+.-]*://|(?i:https?):/)"  # a path has one slash only
URL_IN_TEXT = re.compile(
    rf"""(?<='){URL_START}(?:\\.|[^'\\\n])*|(?<="){URL_START}(?:\\.|[^"\\\n])*|{URL_START}[^\s"'<>]+"""
)
"""Pattern of a url in a text: it ends at its closing quotation mark or at a space."""
REQUEST_IN_TEXT = re.compile(r"(\b(?:url:|GET|HEAD|POST) /[^\s?#]*)[?#]\S*")
"""Pattern of path and query without the host, as errors and logs of requests and urllib3 show them.
"""
LOGIN_IN_TEXT = re.compile(
    r"""(?i)(\bauthorization["']?\s*[:=]\s*["']?)(?:basic|bearer|digest|token)\s(?!<)[^\s"',;]+|(\bbearer\s)[\w~+/=.-]{15,}[\w=]"""
)
"""Pattern of a key in the header of a request: it follows the header's name, or `bearer` if it is
long.
"""
CLOSING = re.compile(r"[)\]},.;:]*$")
"""Pattern of punctuation after a url, which belongs to the sentence and not to the url."""


def split_url(url: str) -> tuple[str, str, str, str]:
    """Split any text as a url into scheme with slashes, user and password, host with path, and
    query with fragment.

    If a url is malformed, too much rather than too little of it counts as user and password.
    """
    scheme = SCHEME.match(url)
    assert scheme is not None
    rest = url[scheme.end() :]
    # User, password, host and port: all up to the path.
    authority = re.split("[/?#]", rest, maxsplit=1)[0]

    # The user ends at the last @ of the authority. If the text after the colon is not a port, it is
    # a password that contains a slash, question mark or number sign; then the last @ of the whole
    # rest counts.
    host = authority.rpartition("]")[2]  # an IPv6 address in brackets holds colons
    _, colon, port = host.partition(":")
    end = len(authority)
    has_odd_port = bool(scheme[0] and colon) and not port.isdecimal()
    if has_odd_port and not AT.search(authority):
        end = len(rest)
    user_end = max((match.end() for match in AT.finditer(rest, 0, end)), default=0)

    location = re.match("[^?#]*", rest[user_end:])
    assert location is not None
    return scheme[0], rest[:user_end], location[0], rest[user_end + location.end() :]


def redact_url(url: str) -> str:
    """Return a url without user, password, query and fragment, which may be keys; `data:` loses all
    its content.
    """
    # A `data:` url holds its content instead of an address.
    if url[:5].lower() == "data:":
        return url[:5]
    scheme, _, location, _ = split_url(url)
    return scheme + location


def name_url(url: str) -> str:
    """Return a redacted url with digests instead of query and fragment, so that different urls keep
    different names.
    """
    # A digest keeps urls with different keys apart, but does not reveal the keys.
    query, number_sign, fragment = split_url(url)[3].partition("#")
    name = redact_url(url)
    if query:
        name += f"?{_digest(query[1:])}"
    if number_sign:
        name += f"#{_digest(fragment)}"
    return name


def _digest(text: str) -> str:
    """Return a short digest of a text; return a text that is such a digest unchanged."""
    if DIGEST.fullmatch(text):
        return text
    return (
        f"sha256-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"
    )


def has_user(url: str) -> bool:
    """Return whether a url holds a user or password."""
    return bool(split_url(url)[1])


def hide_secrets(text: str, *urls: str) -> str:
    """Return a text for people without secrets: parts of urls that may be keys, and known secrets
    in usual encodings.

    Args:
        text: Message, log line or traceback.
        urls: Urls whose user, password and query are hidden also if they occur in the text outside
            of a url.
    """
    text = URL_IN_TEXT.sub(_redact_match, text)
    # Libraries of requests show path and query without the host.
    text = REQUEST_IN_TEXT.sub(r"\1", text)
    # Known values, and the secrets in urls that a caller names.
    secrets = dict(list_secrets())
    for url in urls:
        secrets |= dict.fromkeys(list_url_secrets(url), HIDDEN)
    text = _replace_secrets(text, secrets, SHORTEST_SECRET)
    # A known secret already has its name there.
    return LOGIN_IN_TEXT.sub(rf"\1\2{HIDDEN}", text)


def _redact_match(match: re.Match[str]) -> str:
    """Return the redacted url of a match, with the punctuation after it."""
    url = match[0]
    # A full stop or bracket behind a url belongs to the sentence, not to the url.
    closing = CLOSING.search(url)
    assert closing is not None
    return redact_url(url[: closing.start()]) + closing[0]


def hide_known_secrets(data: object) -> object:
    """Return nested mappings and lists whose texts hold no known secret; urls and other values stay
    as they are.
    """
    secrets = list_secrets()
    return _convert_texts(
        data, lambda text: _replace_secrets(text, secrets, SHORTEST_IN_DATA)
    )


def _convert_texts(data: object, convert: Callable[[str], str]) -> object:
    """Return nested mappings and lists with their texts converted; other values and keys stay as
    they are.
    """
    if isinstance(data, str):
        return convert(data)
    if isinstance(data, Mapping):
        return {key: _convert_texts(value, convert) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_convert_texts(value, convert) for value in data]
    return data


def contains_known_secret(content: bytes) -> bool:
    """Return whether the bytes of a reply contain a known secret in any usual encoding."""
    # Short secrets would occur in ordinary bytes by chance.
    forms = _list_forms(list_secrets(), SHORTEST_IN_DATA)
    return any(form.encode() in content for form, _ in forms)


def describe_value(value: object) -> str:
    """Return the repr of a wrong value for a message, without secrets and without the values of
    keys like `token`.
    """
    return hide_secrets(repr(_hide_named_values(value)))


def redact_urls(config: MutableMapping[str, object]) -> None:
    """Replace each url in a study by its name (`name_url`), in place, so that copies of the study
    show no secret.
    """
    for key, value in config.items():
        config[key] = _convert_texts(
            value, lambda text: name_url(text) if "://" in text else text
        )


def _hide_named_values(value: object) -> object:
    """Return a value with redacted urls and without the values of keys whose names say that they
    are secret.
    """
    if isinstance(value, str):
        return redact_url(value) if "://" in value else value
    if isinstance(value, list):
        return [_hide_named_values(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    content: dict[object, object] = {}
    for key, entry in value.items():
        is_secret = SECRET_NAME.search(str(key)) is not None
        content[key] = HIDDEN if is_secret else _hide_named_values(entry)
    return content


def _replace_secrets(text: str, secrets: Mapping[str, str], shortest: int) -> str:
    """Return a text in which labels replace secrets; longer secrets come first, as they may contain
    shorter ones.

    Args:
        text: The text.
        secrets: Label of each secret by its value.
        shortest: Smallest length of a secret that is replaced.
    """
    for form, label in _list_forms(secrets, shortest):
        text = text.replace(form, label)
    return text


def _list_forms(secrets: Mapping[str, str], shortest: int) -> Iterator[tuple[str, str]]:
    """Yield the encoded forms of each secret that is long enough, with its label; the longest
    secret comes first.
    """
    # A long secret may contain a short one, which must not be replaced inside it.
    for value in sorted(secrets, key=len, reverse=True):
        if len(value) >= shortest:
            for form in list_encoded_forms(value):
                yield form, secrets[value]


def list_secrets() -> dict[str, str]:
    """Return the secrets that this process may know: label by value."""
    # Files are read again only when they have changed.
    token_file = _find_hub_token()
    netrc_file = find_netrc()
    return {
        **_list_environment_secrets(frozenset(os.environ.items())),
        **dict.fromkeys(
            _read_token(token_file, _get_change_time(token_file)), "<token of the hub>"
        ),
        **dict.fromkeys(
            _read_netrc(netrc_file, _get_change_time(netrc_file)), "<netrc>"
        ),
    }


@functools.lru_cache(maxsize=8)
def _list_environment_secrets(
    environment: frozenset[tuple[str, str]],
) -> Mapping[str, str]:
    """Return the secrets in environment variables: label by value."""
    secrets: dict[str, str] = {}
    for name, value in sorted(environment):
        if SECRET_NAME.search(name):
            secrets[value.strip()] = f"<{name}>"
            continue
        # Other variables may contain urls with passwords, such as the urls of proxies and indices.
        # Proxies need no scheme.
        is_url = "://" in value or name.lower().endswith("_proxy")
        if is_url:
            secrets |= dict.fromkeys(list_url_secrets(value), f"<{name}>")
    return secrets


def list_url_secrets(url: str) -> list[str]:
    """Return the parts of a url that may be secrets: user with password, password, query, and
    values of the query.
    """
    _, user, _, ending = split_url(url)
    query = ending.partition("#")[0].removeprefix("?")
    # The separator does not belong to the user.
    user = re.sub("(@|%40)$", "", user)
    password = user.partition(":")[2]
    values = [value for _, value in parse_qsl(query)]
    # Each part as it is, and without escapes.
    parts = [user, password, query, *values]
    secrets = dict.fromkeys([*parts, *map(unquote, parts)])
    return [secret for secret in secrets if len(secret) >= SHORTEST_SECRET]


def find_netrc() -> Path:
    """Return the path of the netrc file, which lists users and passwords by host; the file may be
    absent.
    """
    return Path(os.environ.get("NETRC") or _find_home() / ".netrc")


def _find_home() -> Path:
    """Return the home folder of the user; if there is none, return a path that contains no file."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def _find_hub_token() -> Path:
    """Return the file in which `hf auth login` stores its token."""
    # The same order of variables as in `huggingface_hub`.
    path = os.environ.get("HF_TOKEN_PATH")
    if path:
        return Path(path)
    hub_folder = os.environ.get("HF_HOME")
    if hub_folder:
        return Path(hub_folder) / "token"
    cache = os.environ.get("XDG_CACHE_HOME") or _find_home() / ".cache"
    return Path(cache) / "huggingface" / "token"


def _get_change_time(file: Path) -> int:
    """Return the time of a file's last change in nanoseconds; 0 if there is no such file."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=8)
def _read_token(file: Path, _changed: int) -> list[str]:
    """Return the token in a file, or an empty list; the time of the last change makes the cache
    read a changed file again.
    """
    try:
        return [file.read_text(encoding="utf-8").strip()]
    except (OSError, UnicodeDecodeError):
        return []


@functools.lru_cache(maxsize=8)
def _read_netrc(file: Path, _changed: int) -> list[str]:
    """Return the passwords of netrc, each alone and as `user:password`, which headers of requests
    contain.

    The time of the last change makes the cache read a changed file again.
    """
    try:
        entries = netrc.netrc(str(file)).hosts.values()
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError):
        return []
    secrets: list[str] = []
    for login, _, password in entries:
        if password:
            secrets += [password, f"{login}:{password}"]
    return secrets


@functools.lru_cache(maxsize=256)
def list_encoded_forms(value: str) -> tuple[str, ...]:
    """Return the forms of a secret, longest first: plain, and escaped for urls, JSON, HTML,
    hexadecimal and base64.
    """
    content = value.encode(errors="surrogatepass")
    # Each entry below is the form in which some library, server or log would repeat the secret.
    plain_json = json.dumps(value)[1:-1]
    forms = {
        value,
        *_list_url_forms(content),
        plain_json,
        plain_json.replace("/", "\\/"),
        json.dumps(value, ensure_ascii=False)[1:-1],
        _escape_all(value, "04x"),
        _escape_all(value, "04X"),
        repr(value)[1:-1],
        html.escape(value),
        content.hex(),
        content.hex().upper(),
        *_list_base64_forms(content),
    }
    return tuple(sorted(forms - {""}, key=lambda form: (-len(form), form)))


def _escape_all(value: str, digits: str) -> str:
    """Return a text in which every character but letters and numerals is an escape of the form `\\u003d`."""
    escaped = ""
    for character in value:
        escaped += character if character.isalnum() else f"\\u{ord(character):{digits}}"
    return escaped


def _list_url_forms(content: bytes) -> Iterator[str]:
    """Yield the percent-escaped forms of a secret, with capital and small hexadecimal digits."""
    for form in (quote(content, safe=""), quote(content), quote_plus(content)):
        yield form
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), form)
    # Some programs escape every byte.
    for digits in "xX":
        yield "".join(f"%{byte:02{digits}}" for byte in content)


def _list_base64_forms(content: bytes) -> Iterator[str]:
    """Yield the base64 characters that depend on a secret alone.

    Base64 encodes three bytes as four characters, so the secret has three possible offsets in a
    longer encoded text.
    """
    # The first and last characters also depend on the neighboring bytes and are cut off.
    for offset, start in enumerate((0, 2, 3)):
        end = (offset + len(content)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            form = encode(bytes(offset) + content).decode()[start:end]
            if len(form) >= SHORTEST_BASE64:
                yield form


class RedactingFormatter(logging.Formatter):
    """Formatter that hides secrets in log lines and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a log record without secrets."""
        return hide_secrets(super().format(record))
