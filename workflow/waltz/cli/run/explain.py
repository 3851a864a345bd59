"""Errors that the user can correct: one line of waltz replaces the message of Snakemake about the
same exception.

Each line is made from the exception that Snakemake reports, and from the values of the call that
raised it. All other messages of Snakemake stay as they are.
"""

import sys
from collections.abc import Callable
from logging import LogRecord
from pathlib import Path

from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from waltz import snakemake_compat
from waltz.cli.run.targets import build_missing_file_error, build_target_error
from waltz.core.errors import UserError, convert_to_user_error
from waltz.plan.read_study import load_yaml

STUDY_SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of files that Snakemake reads as a study."""

_describe_refusal: Callable[[], str] | None = None


def install(describe_refusal: Callable[[], str]) -> None:
    """Install the filter through which all loggers of a run show the lines of this module.

    Args:
        describe_refusal: Function that returns a text about the holder of the lock files for which
            Snakemake refuses a run.
    """
    global _describe_refusal
    _describe_refusal = describe_refusal
    logger.addFilter(explain)


def explain(record: LogRecord) -> bool:
    """Replace a message about an error that the user can correct.

    This is a filter of Snakemake's logger; it always returns True, so each record is kept.
    """
    # A record passes the filter of each logger that it reaches, and is replaced only once.
    if getattr(record, "is_explained", False):
        return True
    line = _find_line(record)
    if line is not None:
        record.msg, record.args, record.is_explained = line, None, True
    return True


def _find_line(record: LogRecord) -> str | None:
    """Return the line that replaces a message; None if the message stays as it is."""
    message = record.getMessage()
    if snakemake_compat.LOCKED in message and _describe_refusal:
        return f"{snakemake_compat.LOCKED}\nwaltz: {_describe_refusal()}"
    if getattr(record, "event", None) != LogEvent.ERROR:
        return None
    error = _find_user_error(message, sys.exc_info()[1])
    return None if error is None else f"waltz: {error}"


def _find_user_error(message: str, error: BaseException | None) -> UserError | None:
    """Return an error that tells the user what to correct; None if the user cannot correct the
    exception.

    Args:
        message: Snakemake's message.
        error: The exception that is being handled; None if there is none.
    """
    # From the most specific cause to the least: the first one that is recognized is shown.
    rule_error = snakemake_compat.find_rule_error(message.splitlines())
    if rule_error is not None:
        return UserError(rule_error)
    if error is None:
        return None
    entry = snakemake_compat.find_wrong_entry(error)
    if entry is not None:
        return _build_entry_error(entry)
    file = snakemake_compat.find_wrong_file(error)
    if file is not None:
        return _build_file_error(file, error)
    target = snakemake_compat.find_missing_target(error)
    if target is not None:
        return build_target_error(target)
    if snakemake_compat.is_about_missing_input(error):
        return build_missing_file_error(message)
    return convert_to_user_error(error) if isinstance(error, Exception) else None


def _build_entry_error(entry: str) -> UserError:
    """Return the error about an entry of `--config` that Snakemake cannot read: a nested key, or no
    KEY=VALUE.
    """
    name, sign, value = entry.partition("=")
    section, _, key = name.partition(".")
    # `section.key=value` is the usual attempt to set a nested key.
    if sign and section.isidentifier() and key:
        return build_nested_error(entry, f"{section}: {{{key}: {value}}}")
    advice = "run: snakemake --cores 2 --config study=scenes"
    # --config takes all words behind it, so a target after it is read as an entry.
    if not sign:
        advice += (
            f"; if it is a target, write it behind --: --config study=scenes -- {entry}"
        )
    return UserError(
        f"--config: no key with a value (got {entry!r}, expected KEY=VALUE); {advice}"
    )


def build_nested_error(entry: str, line: str) -> UserError:
    """Return the error about a nested key on the command line, which Snakemake cannot set.

    Args:
        entry: The entry of `--config`.
        line: Line of a study file that sets the same key.
    """
    return UserError(
        f"--config: sets keys of the top level only (got {entry!r}); write {line!r} into a study file that extends"
        " this one, and run: snakemake --cores 2 --configfile FILE"
    )


def _build_file_error(file: Path, error: BaseException) -> UserError:
    """Return the error about a file of `--configfile` that is not a study.

    Args:
        file: The file.
        error: Error of Snakemake, which is shown if waltz itself can read the file.
    """
    fault = f"{file}: cannot be read ({' '.join(str(error).split())}); correct it"
    try:
        load_yaml(file)
    except UserError as user_error:
        fault = str(user_error)
    # --configfile takes all words behind it, too.
    if file.suffix not in STUDY_SUFFIXES:
        fault += f"; if it is a target, write it behind --: --configfile FILE -- {file}"
    return UserError(fault)
