"""Mapped tasks: what `expand`, `partial` and `expand_kwargs` take and make."""

from __future__ import annotations

import pytest

from milepost.sdk import DAG, BaseOperator, DagDefinitionError, options, task
from milepost.sdk.expansion import NotMappableError, Product, Rows
from milepost.sdk.mapped import MappedTask


@task
def add(x, y=0):
    """Add."""
    return x + y


@task
def numbers():
    """Return a list."""
    return [1, 2, 3]


class Add(BaseOperator):
    def __init__(self, x, y=0, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y = x, y

    def execute(self, context):
        """Add."""
        return self.x + self.y


class View:
    """A run in which every task returned the same."""

    def __init__(self, value):
        self.value = value

    def result(self, task):
        """Return the one result there is."""
        return self.value

    def param(self, name, default):
        """Return the default."""
        return default


def all_items(expansion):
    """Return what every instance gets."""
    return [expansion.at(expansion.positions(index)) for index in range(len(expansion))]


def test_product_varies_the_last_argument_fastest():
    """`expand` makes every combination, in the order of `itertools.product`."""
    assert all_items(Product({"x": [1, 2], "y": ["a", "b"]})) == [
        {"x": 1, "y": "a"},
        {"x": 1, "y": "b"},
        {"x": 2, "y": "a"},
        {"x": 2, "y": "b"},
    ]


def test_dict_is_mapped_as_pairs():
    """A dict is mapped over its pairs, as in Airflow."""
    assert all_items(Product({"x": {"a": 1, "b": 2}})) == [{"x": ("a", 1)}, {"x": ("b", 2)}]


def test_empty_list_makes_no_instance():
    """One empty list leaves no combination."""
    assert len(Product({"x": [1, 2], "y": []})) == 0


def test_result_of_a_task_decides_the_length():
    """A result in `expand` is replaced by its list once it is known."""
    with DAG("d"):
        expansion = Product({"x": numbers(), "y": [10]})
    assert [source.operator.task_id for source in expansion.length_sources()] == ["numbers"]
    assert all_items(expansion.expand(View([5, 6]))) == [{"x": 5, "y": 10}, {"x": 6, "y": 10}]


@pytest.mark.parametrize("value", [3, "text", b"bytes", None, {1, 2}])
def test_result_that_is_no_list_cannot_be_expanded(value):
    """Only lists and dicts can be mapped over."""
    with DAG("d"):
        expansion = Product({"x": numbers()})
    with pytest.raises(NotMappableError, match="result of task 'numbers'"):
        expansion.expand(View(value))


def test_rows_of_a_result():
    """`expand_kwargs` takes the result of a task that returns dicts."""
    with DAG("d"):
        expansion = Rows(numbers())
    assert all_items(expansion.expand(View([{"x": 1}]))) == [{"": {"x": 1}}]
    with pytest.raises(NotMappableError):
        expansion.expand(View([1]))


def test_position_beyond_a_list_is_an_error():
    """A list that became shorter in the file is noticed."""
    with pytest.raises(LookupError, match="has changed"):
        Product({"x": [1]}).at({"x": 1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (add.expand, "at least one"),
        (lambda: add.expand(z=[1]), "does not fit"),
        (lambda: add.expand(y=[1]), "lacks the argument 'x'"),
        (lambda: add.expand(x=3), "takes a list"),
        (lambda: add.expand(x="abc"), "takes a list"),
        (lambda: add.partial(x=1).expand(x=[1]), "given to partial"),
        (add.partial(x=1), r"after partial\(\)"),
        (lambda: add.partial(z=1), "does not fit"),
        (lambda: add.expand_kwargs([{"x": 1}, {"z": 2}]), "does not fit"),
        (lambda: add.expand_kwargs([1]), "dicts in its list"),
        (lambda: add.expand_kwargs({"x": 1}), "list of dicts"),
        (Add.partial(task_id="a").expand, "at least one"),
        (lambda: Add.partial(task_id="a").expand(z=[1]), "no argument 'z'"),
        (lambda: Add.partial(task_id="a").expand(y=[1]), "'x' is missing"),
        (lambda: Add.partial(task_id="a").expand(x=[1], retries=[1, 2]), "the same for all"),
        (lambda: Add.partial(task_id="a", x=1).expand(x=[1]), "given to partial"),
        (lambda: Add.partial(x=1).expand(y=[1]), "needs a task_id"),
        (lambda: Add.partial(task_id="a").expand_kwargs([{"x": 1}, {"y": 1}]), "'x' is missing"),
    ],
)
def test_wrong_mapping_is_refused(make, message):
    """A mapping that cannot work is refused while the file is loaded."""
    with DAG("d"), pytest.raises(DagDefinitionError, match=message):
        make()


def test_unmapped_function():
    """One instance of a mapped function gets the shared and its mapped arguments, and the task's settings."""
    with DAG("d") as made:
        add.override(retries=2).partial(y=5).expand(x=[1, 2])
    mapped = made.get_task("add")
    assert isinstance(mapped, MappedTask)
    operator = mapped.unmap({"x": 2})
    assert operator.execute({}) == 7
    assert (operator.task_id, operator.retries, made.task_ids) == ("add", 2, ["add"])


def test_unmapped_operator():
    """One instance of a mapped operator class is made with default_args, shared and mapped arguments."""
    with DAG("d", default_args={"y": 7}) as made:
        Add.partial(task_id="plain").expand(x=[1])
        Add.partial(task_id="given", y=1).expand(x=[1])
    assert [made.get_task(name).unmap({"x": 1}).execute({}) for name in ("plain", "given")] == [8, 2]


def test_mapped_argument_cannot_take_the_place_of_a_shared_one():
    """A row of `expand_kwargs` from a result cannot overwrite what `partial` gave."""
    with DAG("d") as made:
        add.partial(y=5).expand_kwargs(numbers())
        Add.partial(task_id="op", y=5).expand_kwargs(numbers())
    for name in ("add", "op"):
        with pytest.raises(TypeError, match="'y'"):
            made.get_task(name).unmap({"x": 1, "y": 2})


def test_item_is_the_mapped_arguments():
    """Without a map_key, all mapped arguments together identify an item; pairs of a dict count as lists."""
    with DAG("d") as made:
        add.expand(x={"a": 1})
    assert made.get_task("add").milepost_options.item({"x": ("a", 1)}) == {"x": ["a", 1]}


@pytest.mark.parametrize("key", ["x", lambda item: item["x"]])
def test_map_key_identifies_the_item(key):
    """A map_key, a name or a function of the mapped arguments, identifies an item instead."""

    @task
    @options(map_key=key, clear_on_success=True, on_clear="keep")
    def work(x, y):
        pass

    with DAG("d") as made:
        work.expand(x=[1], y=[2])
    chosen = made.get_task("work").milepost_options
    assert chosen.item({"x": 1, "y": 2}) == {"map_key": 1}
    assert (chosen.clear_on_success, chosen.on_clear) == (True, "keep")


def test_options_on_an_operator_class():
    """`options` works on operator classes, mapped or not."""

    @options(clear_on_success=True)
    class Special(Add):
        pass

    with DAG("d") as made:
        Special(task_id="one", x=1)
        Special.partial(task_id="many").expand(x=[1])
    assert [one.milepost_options.clear_on_success for one in made.tasks] == [True, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: options(map_keys="x"),
        lambda: options(map_key=3),
        lambda: options(clear_on_success="yes"),
        lambda: options(on_clear="drop"),
        lambda: options(on_clear="keep")(add),
    ],
)
def test_wrong_option_is_refused(make):
    """An unknown option, a bad value, and options above @task are refused."""
    with pytest.raises(DagDefinitionError):
        make()
