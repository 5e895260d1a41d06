"""The page of the REST API in the docs is true."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable

from milepost import TaskScope
from tests.docs.pages import ROOT
from tests.integration.rest.conftest import Ask, Site

PAGE = (ROOT / "docs" / "reference" / "rest.md").read_text(encoding="utf-8")
INSTANCE = "/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}"


def test_the_tables_name_every_route_with_its_role(site: Site, ask: Ask) -> None:
    """Each route of the OpenAPI document is in a table of the page, no other is, and its role is the least that it takes."""
    rows = re.findall(r"^\| `([A-Z]+) ([^`]+)` \| (\w+) \|", PAGE, flags=re.MULTILINE)
    told = {(method, path.replace("…", INSTANCE)): role for method, path, role in rows}
    paths = json.loads(site.server.get("/api/v2/openapi.json")[1])["paths"]
    assert sorted(told) == sorted((method.upper(), path) for path, methods in paths.items() for method in methods)
    roles = ["viewer", "editor", "admin"]
    for (method, path), role in told.items():
        refused = [one for one in roles if ask(method, re.sub("[{}]", "", path), {}, token=one).status == 403]
        assert refused == roles[: roles.index(role)], (method, path)


def test_the_examples_print_what_the_page_shows(site: Site, require: Callable[..., None]) -> None:
    """Each curl command of the page prints what stands below it."""
    require("curl", present=shutil.which("curl") is not None)
    site.store.task_store(TaskScope("nightly", "2026-01-01", "load")).set("..", 1)
    (block,) = re.findall(r"```console\n(\$ INSTANCE.*?)```", PAGE, flags=re.DOTALL)
    environment = os.environ | {"API": f"{site.url}/api/v2", "TOKEN": site.tokens["editor"]}
    setup, *commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    for told in commands:
        command, _, shown = told.partition("\n")
        script = f"{setup}\n{command}"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, env=environment, check=True)
        expected = ".*".join(map(re.escape, shown.rstrip().split("…")))
        assert re.fullmatch(expected, done.stdout.rstrip()), f"$ {command}\nprints\n{done.stdout}\nand not\n{shown}"
