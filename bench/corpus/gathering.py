"""Reading and writing at places that values tell; cumulative sums."""

from __future__ import annotations

from typing import Any

from .graph import Family
from .library import Library

FAMILY = Family("gathering")
graph = FAMILY.graph

TABLE = {"words": (11, 8192), "width": (5, 256), "length": (7, 2048)}


@graph("words width", "length <words", kernels=1, **TABLE)
def embedding(o: Library, table: Any, places: Any) -> Any:
    return o.take(table, places)


@graph("words width", "length width", "length <words", kernels=1, **TABLE)
def embedding_with_positions(o: Library, table: Any, positions: Any, places: Any) -> Any:
    return o.take(table, places) * 2 + positions


@graph("words width", "width", "width", "length <words", kernels=1, words=(11, 8192), width=(5, 256), length=(40, 2048))
def embedding_and_layer_norm(o: Library, table: Any, weight: Any, bias: Any, places: Any) -> Any:
    return o.layer_norm(o.take(table, places), weight, bias)


@graph("words width", "length <words", words=(11, 256), width=(5, 256), length=(7, 4096))
def rows_of_a_costly_table(o: Library, table: Any, places: Any) -> Any:
    """Computed for the 256 rows, or for each of the 4,096 that are read."""
    return o.take(o.sin(o.exp(o.tanh(table))), places)


@graph("words width", "length <words", words=(11, 256), width=(5, 256), length=(7, 4096))
def rows_of_normalised_rows(o: Library, table: Any, places: Any) -> Any:
    return o.take(o.softmax(table, -1), places)


@graph("words width", "batch bag <words", words=(11, 8192), width=(5, 128), batch=(3, 256), bag=(4, 16))
def embedding_bag(o: Library, table: Any, places: Any) -> Any:
    return o.mean(o.take(table, places), axis=1)


@graph("rows columns", "rows picked <columns", kernels=1, rows=(4, 2048), columns=(6, 512), picked=(3, 64))
def gather_along_rows(o: Library, x: Any, places: Any) -> Any:
    return o.gather(x, 1, places) * 2


@graph("length <classes", "classes width", length=(7, 512), classes=(5, 256), width=(4, 128))
def one_hot_times_a_matrix(o: Library, labels: Any, table: Any) -> Any:
    return o.one_hot(labels, table.shape[0]) @ table


@graph("words width", "length <words", "length width", words=(6, 1024), width=(4, 64), length=(9, 2048))
def adding_at_places(o: Library, x: Any, places: Any, values: Any) -> Any:
    return o.scatter_add(x, 0, o.expand(o.reshape(places, -1, 1), *values.shape), o.relu(values))


@graph("rows columns", rows=(4, 1024), columns=(7, 512))
def cumulative_sum_of_rows(o: Library, x: Any) -> Any:
    return o.cumsum(x, axis=1)


@graph("size", size=(37, 1 << 16))
def cumulative_sum_of_a_vector(o: Library, x: Any) -> Any:
    return o.cumsum(x * 0.5, axis=0) + 1


@graph("rows columns >0", rows=(4, 1024), columns=(7, 256))
def cumulative_shares(o: Library, x: Any) -> Any:
    return o.cumsum(x / o.sum(x, axis=1, keepdims=True), axis=1)
