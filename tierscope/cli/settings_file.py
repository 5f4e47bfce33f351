"""Read a settings or deployment file: YAML in, frozen types out, every problem named at once."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TypeVar, get_args, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from tierscope.cli.settings_checks import problems_in
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.settings import Settings
from tierscope.domain.units import GIB, KIB, MIB, TIB

T = TypeVar("T")

REFERENCE = "docs/reference/settings.md lists every setting"
UNIT_BYTES = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(" + "|".join(UNIT_BYTES) + r")\s*")


def load_settings(path: Path | str) -> Settings:
    """Read one settings file (see `tierscope.domain.settings`).

    Raises `BadSettings` that lists every problem with its field; a missing or unreadable file is one.
    """
    return _load(Path(path), Settings)


def load_deployment(path: Path | str) -> Deployment:
    """Read one deployment (see `tierscope.domain.deployment`); raises `BadSettings` like `load_settings`."""
    return _load(Path(path), Deployment)


def write_settings(settings: Settings, path: Path) -> None:
    """Write a settings file that `load_settings` reads back to the same settings."""
    document = TypeAdapter(Settings).dump_python(settings, mode="json", exclude_none=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _load(path: Path, wanted: type[T]) -> T:
    document = _document(path)
    # Inside a tuple the configuration reaches every nested dataclass; JSON mode is strict about numbers
    # but lets a list be a tuple and a word an enum.
    adapter = TypeAdapter(
        tuple[wanted],  # type: ignore[valid-type]
        config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False),
    )
    try:
        (settings,) = adapter.validate_json(document)
    except ValidationError as error:
        raise BadSettings([_problem(path, wanted, found) for found in _errors(error)]) from error
    problems = list(problems_in(settings, str(path)))
    if problems:
        raise BadSettings(problems)
    return settings


def _errors(error: ValidationError) -> Iterator[tuple[str, str, str, object]]:
    """Each problem as (field path, kind, message, value found)."""
    for found in error.errors():
        yield field_path(found["loc"][1:]), found["type"], found["msg"], found["input"]


def _problem(path: Path, wanted: type, found: tuple[str, str, str, object]) -> TierscopeError:
    place, kind, message, value = found
    name = place.rpartition(".")[2]
    where = f"{path}, {place}" if place else str(path)
    if kind == "unexpected_keyword_argument":
        return TierscopeError(f"'{name}' is not a setting", where=where, fix=_spelling(name, wanted))
    if kind == "missing":
        return TierscopeError(f"'{name}' is required and missing", where=where, fix=f"add it; {REFERENCE}")
    wish = message.removeprefix("Input should be ")
    return TierscopeError(
        f"{json.dumps(value, default=str)} cannot be used here", where=where, fix=f"it should be {wish}"
    )


def field_path(parts: tuple[int | str, ...]) -> str:
    """Write a place in a document as people do: ('feeds', 0, 'name') -> 'feeds[0].name'."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _spelling(name: str, wanted: type) -> str:
    near = difflib.get_close_matches(name, sorted(_field_names(wanted)), n=1)
    return f"did you mean '{near[0]}'?" if near else f"remove it; {REFERENCE}"


def _field_names(kind: type) -> set[str]:
    """Names of the fields of a settings type and of every settings type inside it."""
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    for hint in get_type_hints(kind).values():
        for inner in (hint, *get_args(hint)):
            if isinstance(inner, type) and is_dataclass(inner):
                names |= _field_names(inner)
    return names


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key written twice; plain YAML keeps the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"'{key.value}' is written twice", key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep)


def _document(path: Path) -> str:
    """A file's one document in a list, as JSON."""
    try:
        return json.dumps([_sizes_in_bytes(_read_yaml(path))], default=str)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; an alias of itself
        what = f"a value of the file cannot be used: {error}"
        raise BadSettings([TierscopeError(what, where=str(path), fix="correct that value")]) from error


def _read_yaml(path: Path) -> object:
    try:
        document = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadSettings([_unreadable(path, f"the file cannot be read: {reason}")]) from error
    except yaml.YAMLError as error:
        raise BadSettings([_bad_yaml(path, error)]) from error
    except (ValueError, RecursionError) as error:  # a date that is none; brackets without end
        what = f"a value of the file cannot be read: {error}"
        raise BadSettings([TierscopeError(what, where=str(path), fix="correct that value")]) from error
    document = {} if document is None else document
    if isinstance(document, Mapping):
        return document
    what = f"the file holds {type(document).__name__}, not fields with values"
    raise BadSettings([TierscopeError(what, where=str(path), fix=f"write 'field: value' lines; {REFERENCE}")])


def _unreadable(path: Path, what: str) -> TierscopeError:
    return TierscopeError(what, where=str(path), fix="check the path and its permissions")


def _bad_yaml(path: Path, error: yaml.YAMLError) -> TierscopeError:
    mark = getattr(error, "problem_mark", None)
    where = f"{path}, line {mark.line + 1}" if mark else str(path)
    problem = getattr(error, "problem", None) or "it is not text"
    return TierscopeError(f"the file is not valid YAML: {problem}", where=where, fix="correct that line")


def _sizes_in_bytes(value: object, name: str = "") -> object:
    """Turn sizes as people write them ('96 GiB' under a key that ends in _bytes) into bytes, anywhere."""
    if isinstance(value, Mapping):
        return {str(key): _sizes_in_bytes(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_sizes_in_bytes(inner, name) for inner in value]
    if isinstance(value, str) and name.endswith("_bytes") and (size := SIZE.fullmatch(value)):
        exact = float(size[1]) * UNIT_BYTES[size[2]]
        return int(exact) if exact.is_integer() else exact
    return value
