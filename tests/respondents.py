"""Respondents of the self-consistency tests whose every reply is known."""

from collections.abc import Callable, Sequence

from waltz.consistency.asking import Request


class Scripted:
    """Replies by a function of the request, and keeps what it was asked, round by round."""

    def __init__(self, reply: Callable[[Request], str]) -> None:
        self.reply = reply
        self.rounds: list[list[Request]] = []

    def replies(self, requests: Sequence[Request]) -> list[str]:
        self.rounds.append(list(requests))
        return [self.reply(request) for request in requests]

    @property
    def asked(self) -> list[Request]:
        return [request for requests in self.rounds for request in requests]


def by_kind(**replies: str | Callable[[Request], str]) -> Scripted:
    """The same reply to each request of a kind, blanks in the kind's name written as underscores."""

    def reply(request: Request) -> str:
        found = replies[request.kind.replace(" ", "_")]
        return found if isinstance(found, str) else found(request)

    return Scripted(reply)
