"""Asking an API that wants to know who asks."""

from __future__ import annotations

import pytest

from tests.node_pods import PodApi
from tierscope.cli.asking import TOKEN_FILE_VARIABLE, fetch
from tierscope.domain.errors import BadInput, TierscopeError


def test_the_token_in_the_named_file_is_shown(tmp_path, monkeypatch):
    """Whatever stands in it now; without the variable nobody's is."""
    with PodApi() as api:
        with pytest.raises(TierscopeError):
            fetch(f"{api.url}/v1")
        (tmp_path / "token").write_text(f"{api.token}\n")
        monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
        assert b"PodList" in fetch(f"{api.url}/v1")


def test_a_token_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    """And nobody is asked without it."""
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "nothing"))

    with pytest.raises(BadInput, match="token cannot be read"):
        fetch("http://127.0.0.1:1/v1")
