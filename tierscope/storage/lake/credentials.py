"""Credentials of an object store: of the environment and the files that every S3 client reads."""

from __future__ import annotations

from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as BadFile
from urllib.parse import urlsplit

from tierscope.domain.errors import StoreUnusable

_OF_KEYS = {
    "KEY_ID": "aws_access_key_id",
    "SECRET": "aws_secret_access_key",
    "SESSION_TOKEN": "aws_session_token",
}
"""Parameters of DuckDB's secret, and their names in a credentials file."""


def s3_parameters(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of DuckDB's S3 secret. Raises `StoreUnusable` for a file that cannot be read."""
    found = {name: environment[key.upper()] for name, key in _OF_KEYS.items() if key.upper() in environment}
    if "KEY_ID" not in found:
        found = _of_file(environment)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    found["REGION"] = region or "us-east-1"
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        parts = urlsplit(endpoint)
        found |= {"ENDPOINT": parts.netloc, "URL_STYLE": "path"}
        found["USE_SSL"] = "false" if parts.scheme == "http" else "true"
    return found


def _of_file(environment: Mapping[str, str]) -> dict[str, str]:
    path = environment.get("AWS_SHARED_CREDENTIALS_FILE")
    if path is None:
        return {}
    profile = environment.get("AWS_PROFILE", "default")
    parser = ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  a path of the environment
            parser.read_file(file)
        section = parser[profile]
    except (OSError, BadFile, KeyError, UnicodeDecodeError) as error:
        raise StoreUnusable(
            f"the credentials of profile {profile} cannot be read ({type(error).__name__})",
            where=path,
            fix="write [profile], aws_access_key_id and aws_secret_access_key into it",
        ) from None  # the cause may quote the file
    return {name: section[key] for name, key in _OF_KEYS.items() if key in section}
