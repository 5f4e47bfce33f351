"""The settings types as rows for people: name, type, default and documentation of every field."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from itertools import pairwise
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting as the reference prints it; every part is text."""

    name: str
    kind: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class Section:
    """One settings type at its place in the file: `exporter.engines[]` is one entry of that list."""

    path: str
    summary: str
    fields: tuple[SettingField, ...]


def sections(root: type) -> Iterator[Section]:
    """Walk the settings types from `root`, outer sections before the ones inside them."""
    waiting = [("", root)]
    while waiting:
        path, settings = waiting.pop(0)
        hints = get_type_hints(settings)
        docs = field_docs(settings)
        rows = tuple(
            SettingField(one.name, kind_text(hints[one.name]), _default(one), docs.get(one.name, ""))
            for one in fields(settings)
        )
        # The summary line of the type's docstring: the rest speaks to programmers.
        yield Section(path, (settings.__doc__ or "").split("\n\n")[0], rows)
        prefix = f"{path}." if path else ""
        inner = [
            (f"{prefix}{name}{suffix}", kind) for name, hint in hints.items() for suffix, kind in _inner(hint)
        ]
        waiting = inner + waiting


def field_docs(settings: type) -> dict[str, str]:
    """Documentation of a dataclass's fields: of `documented()` where it is used, else the text below."""
    return texts_below(settings) | {
        one.name: one.metadata["doc"] for one in fields(settings) if "doc" in one.metadata
    }


def texts_below(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass, or below each member of an enum, by its name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    docs: dict[str, str] = {}
    for before, after in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
        target: ast.expr | None = None
        if isinstance(before, ast.AnnAssign):
            target = before.target
        elif isinstance(before, ast.Assign):
            target = before.targets[0]
        if (
            isinstance(target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            docs[target.id] = inspect.cleandoc(str(after.value.value)).replace("\n", " ")
    return docs


def kind_text(hint: object) -> str:
    """A field's type in words; raises TypeError for a type no settings file can hold."""
    if get_origin(hint) is UnionType:
        inner = [kind for kind in get_args(hint) if kind is not NoneType]
        return " or ".join(kind_text(kind) for kind in inner)
    if get_origin(hint) is tuple:
        return f"list of {kind_text(get_args(hint)[0])}"
    if isinstance(hint, type):
        if issubclass(hint, StrEnum):
            return "one of " + ", ".join(f"`{member.value}`" for member in hint)
        if is_dataclass(hint):
            return "section"
        if hint in NAMES:
            return NAMES[hint]
    raise TypeError(f"a setting cannot be a {hint!r}; use text, a number, a list or a settings type")


def _inner(hint: object) -> Iterator[tuple[str, type]]:
    for kind, suffix in ((hint, ""), *((argument, "[]") for argument in get_args(hint))):
        if isinstance(kind, type) and is_dataclass(kind):
            yield suffix, kind


def _default(one: Field[object]) -> str:
    if one.default is MISSING:
        return "required" if one.default_factory is MISSING else "its own defaults"
    if one.default is None:
        return "none"
    if one.default == ():
        return "empty list"
    return f"`{one.default}`"
