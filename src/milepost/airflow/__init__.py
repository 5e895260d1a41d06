"""Inside Apache Airflow 2.9 and later: the stores in every task's context, by a plugin.

Nothing of it is imported by the rest of Milepost, and Airflow is imported only where it already runs.
"""

from __future__ import annotations

__all__: list[str] = []
