"""The one exception of the package: the core's error, or a front end's in the same form."""

from __future__ import annotations

import typing

KINDS = ("bad-request", "peer-lost", "deadline", "cancelled", "overloaded", "corrupt", "io")


class PacelineError(RuntimeError):
    """What is wrong, with what, and what to do about it. `str(error)` is the sentence that the commands print.

    kind: what the caller can do, one of KINDS. "bad-request": correct the request; "peer-lost": restart the peer or resume without
    it; "deadline": wait longer or find out why; "cancelled": nothing, somebody asked to stop; and so on.
    code: a word for programs, the kind unless something narrower is known. subject: the option, tensor or address that is meant, "" if
    only the sentence says it. exit_code: what a program that ends with this error should return, 2 for a bad request.
    page: the code as people see it, "PL-PORT-IN-USE". `error.help()` and `paceline help PL-PORT-IN-USE` say what to do.
    """

    def __init__(self, message: str, *, kind: str = "bad-request", code: str = "", subject: str = "", exit_code: int | None = None) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
        super().__init__(message)
        self.kind = kind
        self.code = code or kind
        self.subject = subject
        self.message = message
        self.exit_code = exit_code if exit_code is not None else (2 if kind == "bad-request" else 1)

    @property
    def page(self) -> str:
        return f"PL-{self.code.upper()}"

    def help(self) -> str:
        """What the error means, how to check and what to do: the page of its code, as `paceline help` prints it."""
        from paceline import _library

        pages = {page["code"]: page for page in typing.cast("list[dict[str, str]]", _library.ask("errors"))}
        page = pages.get(self.code) or pages[self.kind]
        return f"{page['shown']}: {page['title']}\n\n{page['means']}\n\nHow to check: {page['check']}\n\nWhat to do: {page['remedy']}"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.message, self.kind, self.code, self.subject, self.exit_code)


def in_a_script(message: str) -> str:
    """A sentence of the core, with what a script has in the place of a command's option."""
    return message.replace("--stall-deadline", 'settings={"stall-deadline": ...} of attach')


def _restored(message: str, kind: str, code: str, subject: str, exit_code: int) -> PacelineError:
    return PacelineError(message, kind=kind, code=code, subject=subject, exit_code=exit_code)
