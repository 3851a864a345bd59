"""Patterns of single tokens of a parse, so that a linguistic rule is a table of patterns."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from spacy.tokens import Span, Token


@dataclass(frozen=True)
class TokenPattern:
    """Conditions on a token, which must all hold; None sets no condition.

    Attributes:
        words: Lower-cased words.
        parts_of_speech: Universal parts of speech, such as "NOUN".
        tags: Penn tags, such as "NNS".
        relations: Dependency relations of the token to its head, such as "nsubj".
        head: Conditions on the head of the token.
        before: Conditions on the word directly before the token.
        excluded_words: Lower-cased words that the pattern does not match.
    """

    words: Collection[str] | None = None
    parts_of_speech: Collection[str] | None = None
    tags: Collection[str] | None = None
    relations: Collection[str] | None = None
    head: "TokenPattern | None" = None
    before: "TokenPattern | None" = None
    excluded_words: Collection[str] = ()

    def matches(self, token: Token) -> bool:
        """Return True for a token that meets all conditions."""
        conditions = (
            (self.words, token.lower_),
            (self.parts_of_speech, token.pos_),
            (self.tags, token.tag_),
            (self.relations, token.dep_),
        )
        for allowed_values, value in conditions:
            if allowed_values is not None and value not in allowed_values:
                return False
        if token.lower_ in self.excluded_words:
            return False
        if self.head is not None and not self.head.matches(token.head):
            return False
        words_before = token.doc[max(token.i - 1, 0) : token.i]
        return self.before is None or self.before.matches_any(words_before)

    def matches_any(self, tokens: Iterable[Token]) -> bool:
        """Return True where at least one token meets all conditions."""
        return any(map(self.matches, tokens))

    def matches_all(self, tokens: Iterable[Token]) -> bool:
        """Return True where every token meets all conditions."""
        return all(map(self.matches, tokens))

    def find(self, tokens: Iterable[Token]) -> Token | None:
        """Return the first token that meets all conditions; None where there is none."""
        return next(filter(self.matches, tokens), None)

    def select(self, tokens: Iterable[Token]) -> list[Token]:
        """Return the tokens that meet all conditions, in their order."""
        return list(filter(self.matches, tokens))


def matches_one_of(token: Token, patterns: Iterable[TokenPattern]) -> bool:
    """Return True for a token that at least one of several patterns matches."""
    return any(pattern.matches(token) for pattern in patterns)


def contains_one_of(
    tokens: Sequence[Token] | Span, patterns: Iterable[TokenPattern]
) -> bool:
    """Return True where at least one of several patterns matches at least one token."""
    return any(pattern.matches_any(tokens) for pattern in patterns)
