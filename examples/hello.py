"""Two tasks: one returns a list, the other goes through it, breaks half way, and its retry goes on where it stopped.

Run it with ``milepost run examples/hello.py``.
"""

from milepost.sdk import DAG, task

with DAG("hello"):

    @task
    def names() -> list[str]:
        """Return whom to greet."""
        return ["Ada", "Grace", "Katherine", "Margaret"]

    @task(retries=1)
    def greet(people: list[str], task_store=None, ti=None) -> int:
        """Greet everybody exactly once, however often the task is tried."""
        for number in range(task_store.get("greeted", 0), len(people)):
            print(f"Hello, {people[number]}!")
            task_store.set("greeted", number + 1)
            if ti.try_number == 1 and number == 1:
                raise ConnectionError("the line went dead")
        return task_store.get("greeted")

    greet(names())
