"""Templates, which the local runner does not render, are refused."""

from __future__ import annotations

import pytest

from milepost.sdk import DAG, BaseOperator, DagDefinitionError, task


class Copy(BaseOperator):
    def __init__(self, source, target="here", **kwargs):
        super().__init__(**kwargs)
        self.source = source
        self.target = target

    def execute(self, context):
        """Return what it was given."""
        return self.source


@task
def consume(x, task_store=None, **context):
    """Return the argument."""
    return x


def test_template_is_refused():
    """A template in a template field fails at load: nothing would render it."""

    class Query(Copy):
        template_fields = ("source",)

    with DAG("d"), pytest.raises(DagDefinitionError, match="holds a template"):
        Query(task_id="q", source=["SELECT {{ ds }}"])


def test_template_file_is_refused():
    """The name of a template file in a template field fails at load: nothing would read it."""

    class Query(Copy):
        template_fields = ("source",)
        template_ext = (".sql",)

    with DAG("d"), pytest.raises(DagDefinitionError, match=r"holds a template, 'query\.sql'"):
        Query(task_id="q", source="query.sql")


@pytest.mark.parametrize(
    "make",
    [
        lambda: consume("{{ ds }}"),
        lambda: consume(x={"deep": ["{% if 1 %}"]}),
        lambda: consume.expand(x=["{{ ds }}"]),
        lambda: consume.partial(x="{{ ds }}").expand(task_store=[1]),
    ],
)
def test_template_in_an_argument_is_refused(make):
    """Airflow renders templates in the arguments of task functions too, so they are refused."""
    with DAG("d"), pytest.raises(DagDefinitionError, match="an argument of task 'consume' holds a template"):
        make()
