"""Every route of both OpenAPI documents, with requests made from them: nothing is ever the server's fault."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from milepost import Asset, TaskScope
from tests.integration.rest.conftest import Site
from tests.support.serving import SECRET

with warnings.catch_warnings():  # those of the package at import are its own
    warnings.simplefilter("ignore")
    import schemathesis

DOCUMENTS = {"rest": "/api/v2/openapi.json", "execution": "/execution/v1/openapi.json"}
EXAMPLES = 4
"""Requests of each kind for each route."""


@pytest.fixture(scope="module")
def known(site: Site) -> dict[str, Any]:
    """Names of what the store holds, which requests are given so that they get past the first look-up."""
    scope = TaskScope("fuzzed", "run", "task")
    site.store.task_store(scope).set_many({"k": 1, "a/b": {"n": [1]}})
    asset = site.store.asset_store(Asset("fuzzed"))
    asset.set("k", 1)
    asset.set("k", 2)
    return {
        "dag_id": scope.dag_id,
        "dag_run_id": scope.run_id,
        "task_id": scope.task_id,
        "asset_id": str(asset.scope.asset_id),  # type: ignore[union-attr]
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_route_fails(site: Site, known: dict[str, Any], name: str) -> None:
    """Whatever the document allows, and what it does not: no answer is 5xx, and each has a status that it names."""
    document = schemathesis.openapi.from_url(f"{site.url}{DOCUMENTS[name]}")
    credential = site.tokens["admin"] if name == "rest" else SECRET
    headers = {"Authorization": f"Bearer {credential}"}
    bounded = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seen = 0

    def requests_of(operation: Any, mode: Any) -> Any:
        """Return a test that sends requests of one kind to one route."""
        strategy = operation.as_strategy(generation_mode=mode)

        @bounded
        @given(case=strategy, there=st.booleans())
        def check(case: Any, there: bool) -> None:
            nonlocal seen
            if there and case.path_parameters:
                case.path_parameters |= {one: known[one] for one in case.path_parameters if one in known}
            answer = case.call(headers=headers, timeout=30)
            seen += 1
            assert answer.status_code < 500, (operation.label, answer.status_code, answer.text)

        return check

    for result in document.get_all_operations():
        for mode in schemathesis.GenerationMode:
            with contextlib.suppress(Unsatisfiable):  # a route of which nothing can be wrong
                requests_of(result.ok(), mode)()
    assert seen > 30
