"""Reads a command line into dataclasses of options, strictly.

tyro derives the help from the dataclasses; it would take the last of several values in silence and
has no suggestions for values, so the reading is done here, by the same declarations.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from tyro.conf import FlagCreatePairsOff

from rlpyt.cli.values import Reader, reader
from rlpyt.errors import UsageError
from rlpyt.flags import Flag, flags_of, replaced
from rlpyt.suggest import did_you_mean

Command = TypeVar("Command")
_NUMBER = re.compile(r"-\.?\d")  # a negative number is a value
HELP = ("-h", "--help")


class OptionError(UsageError):
    """A command line that cannot be read; the command's help has the remedy."""


@dataclasses.dataclass
class Given:
    """What a command line holds: each option's spelling with its texts, and what stands alone."""

    options: dict[Flag, tuple[str, list[str]]]
    words: list[str]

    def text(self, name: str) -> str | None:
        """The first text given for an option, if it was."""
        for flag, (_, texts) in self.options.items():
            if flag.name == name and texts:
                return texts[0]
        return None


def parse(
    default: Command, argv: Sequence[str], refused: Mapping[str, str] | None = None
) -> Command:
    """The command with the options of a command line in place of its defaults."""
    return read(default, scan(list(flags_of(default)), argv, refused=refused))


def parse_or_help(
    default: Command, argv: Sequence[str], prog: str, refused: Mapping[str, str] | None = None
) -> Command | None:
    """As `parse`; None where help was asked for, which is printed.

    Args:
        default: a dataclass whose docstring describes the command.
        prog: the command as help names it, such as "rlpyt eval".
        refused: as `scan` takes it.
    """
    if not wants_help(argv):
        return parse(default, argv, refused)
    from rlpyt.cli.help import print_help

    kind = Annotated[type(default), FlagCreatePairsOff]
    print_help(kind, default, prog, type(default).__doc__ or "")
    return None


def read(default: Command, given: Given) -> Command:
    """Texts become values, and the defaults of a command give way to them."""
    values: dict[Flag, Any] = {}
    for flag, (spelling, texts) in given.options.items():
        values[flag] = _value(flag, spelling, texts)
    positionals = [flag for flag in flags_of(default) if flag.positional]
    words = list(given.words)
    for flag in positionals:
        one = reader(flag.hint)
        taken, words = (words, []) if one.many else (words[:1], words[1:])
        if taken:
            read_words = [_read(one, flag.text, word) for word in taken]
            values[flag] = tuple(read_words) if one.many else read_words[0]
        elif not _is_optional(default, flag):
            raise OptionError(f"{flag.text} is missing")
    if words:
        raise OptionError(f"{words[0]!r} is one too many; options begin with --")
    return replaced(default, values)


def scan(
    flags: Sequence[Flag],
    argv: Sequence[str],
    *,
    refused: Mapping[str, str] | None = None,
    words: Sequence[str] = (),
) -> Given:
    """Sort a command line into options and words.

    Args:
        flags: the options that there are.
        argv: what was typed.
        refused: spellings that other libraries or algorithms have, and what to say of each.
        words: known words, which no option that takes several values swallows.
    """
    by_spelling = {spelling: flag for flag in flags for spelling in flag.spellings}
    given = Given({}, [])
    rest = list(argv)
    while rest:
        token = rest.pop(0)
        if not token.startswith("-") or _NUMBER.match(token) or token == "-":
            given.words.append(token)
            continue
        spelling, equals, text = token.partition("=")
        spelling = spelling.replace("_", "-")
        flag = by_spelling.get(spelling)
        positive = by_spelling.get(f"--{spelling[5:]}") if spelling.startswith("--no-") else None
        if flag is None and positive is not None and positive.hint is bool:
            flag = positive
        if flag is None or flag.positional:
            raise OptionError(_unknown(spelling, flags, refused or {}))
        texts: list[str] = []
        if flag.hint is bool:
            if equals:
                raise OptionError(f"{spelling} takes no value; write {flag.text} or {_no(flag)}")
        elif equals:
            texts = [text]
        else:
            many = reader(flag.hint).many
            while rest and _is_value(rest[0]) and (many or not texts):
                if many and rest[0] in words:
                    break
                texts.append(rest.pop(0))
            if not texts and not many:
                raise OptionError(f"{spelling} needs a value: {reader(flag.hint).metavar}")
        if flag in given.options:
            before = " ".join([given.options[flag][0], *given.options[flag][1]])
            again = " ".join([spelling, *texts])
            raise OptionError(f"{flag.text} is given twice ({before}, {again}); give it once")
        given.options[flag] = (spelling, texts)
    return given


def wants_help(argv: Sequence[str]) -> bool:
    """Whether help is asked for, wherever it stands."""
    return any(token in HELP for token in argv)


def _value(flag: Flag, spelling: str, texts: list[str]) -> Any:
    if flag.hint is bool:
        return spelling in flag.spellings
    one = reader(flag.hint)
    values = [_read(one, spelling, text) for text in texts]
    return tuple(values) if one.many and values != [None] else values[0]


def _read(one: Reader, spelling: str, text: str) -> Any:
    try:
        return one.read(text)
    except ValueError as error:
        raise OptionError(f"{spelling}={text} {error}") from None


def _unknown(spelling: str, flags: Sequence[Flag], refused: Mapping[str, str]) -> str:
    if spelling in refused:
        return refused[spelling]
    known = [text for flag in flags if not flag.positional for text in flag.spellings]
    known += [_no(flag) for flag in flags if flag.hint is bool and spelling.startswith("--no-")]
    return f"there is no option {spelling}{did_you_mean(spelling, known)}"


def _no(flag: Flag) -> str:
    return f"--no-{flag.text[2:]}"


def _is_value(token: str) -> bool:
    return not token.startswith("-") or token == "-" or _NUMBER.match(token) is not None


def _is_optional(default: Any, flag: Flag) -> bool:
    field = next(f for f in dataclasses.fields(default) if f.name == flag.name)
    return getattr(default, field.name) != ""
