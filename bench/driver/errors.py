# SPDX-License-Identifier: Apache-2.0
"""Errors that are told to the user in one line."""


class BenchError(Exception):
    """Something could not be built, run or understood."""


class UsageError(BenchError):
    """An option has an impossible value."""


def parse_names(option, text, known):
    """The words of a comma-separated option, each one of `known`, in the order of `known`."""
    words = text.split(",")
    for word in words:
        if word not in known:
            raise UsageError(f"{option}: unknown name '{word}', expected some of {','.join(known)}")
    return [name for name in known if name in words]


def positive(option, value):
    if value < 1:
        raise UsageError(f"{option}: {value} is not a positive number")
    return value
