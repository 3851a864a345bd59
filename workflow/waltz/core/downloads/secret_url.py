"""Url in a study whose query may be a key: dumps and representations show a name instead."""

from typing import Any

from pydantic import GetCoreSchemaHandler, SecretStr
from pydantic_core import core_schema

from waltz.core.downloads.urls import URL_PATTERN, check_user
from waltz.core.redaction import name_url


class SecretUrl(SecretStr):
    """Url of a study that is shown and dumped by its name (`name_url`): digests replace query and
    fragment.
    """

    def _display(self) -> str:
        """Return the name, which pydantic shows instead of the url."""
        return name_url(self.get_secret_value())

    def __repr__(self) -> str:
        """Return the representation of the name, which Snakemake compares and records."""
        return repr(self._display())

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Return the schema by which pydantic validates a text as a url and dumps its name."""
        return core_schema.no_info_after_validator_function(
            lambda url: cls(check_user(url)),
            core_schema.str_schema(pattern=URL_PATTERN, strict=True),
            serialization=core_schema.to_string_ser_schema(when_used="always"),
        )
