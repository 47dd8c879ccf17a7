"""The key of a job, made without the program."""

from __future__ import annotations

import os

from paceline._errors import PacelineError

BYTES = 32


def new_key(file: str | os.PathLike[str]) -> str:
    """Makes the key of a job, as `paceline key new FILE` does: a new file of 32 random bytes that only this user may read. Returns its path, for
    job_key_file. Give it to every process of one job, and to nobody else. Raises PacelineError when the file is there already or cannot be made."""
    path = os.fspath(file)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise PacelineError(f"{path} is there already, and a key that is in use must not go; give another name", code="key", subject=path) from None
    except OSError as error:
        raise PacelineError(f"{path} cannot be made: {error.strerror}", kind="bad-request" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else "io", subject=path) from None
    try:
        os.write(descriptor, os.urandom(BYTES))
        os.fsync(descriptor)
    except OSError as error:
        os.unlink(path)
        raise PacelineError(f"{path} cannot be written: {error.strerror}", kind="io", subject=path) from None
    finally:
        os.close(descriptor)
    return path
