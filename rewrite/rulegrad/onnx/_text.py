"""Ops on text, which stays on the host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


def _texts(values: list[str], shape: Any) -> Any:
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(shape)


@op("StringConcat", raw=True)
def string_concat(call: Call, a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(a, b)
    return _texts([str(x) + str(y) for x, y in zip(a.ravel(), b.ravel())], a.shape)


@op("RegexFullMatch", raw=True)
def regex_full_match(call: Call, x: Any, *, pattern: str) -> Any:
    return np.array([re.fullmatch(pattern, str(one)) is not None for one in x.ravel()], bool).reshape(x.shape)


@op("StringSplit", raw=True)
def string_split(call: Call, x: Any, *, delimiter: str | None = None, maxsplit: int | None = None) -> Any:
    most = -1 if maxsplit is None else maxsplit
    parts = [str(one).split(delimiter or None, most) for one in x.ravel()]
    width = max(map(len, parts), default=0)
    filled = [one for row in parts for one in (*row, *[""] * (width - len(row)))]
    return _texts(filled, (*x.shape, width)), np.array([len(row) for row in parts], np.int64).reshape(x.shape)


@op("StringNormalizer", raw=True)
def string_normalizer(
    call: Call,
    x: Any,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: list[str] | None = None,
) -> Any:
    def changed(text: str) -> str:
        return {"LOWER": text.lower(), "UPPER": text.upper()}.get(case_change_action, text)

    stop = set(stopwords or ()) if is_case_sensitive else {one.lower() for one in stopwords or ()}
    rows = [[str(one) for one in row] for row in x.reshape(-1, x.shape[-1])]
    kept = [[changed(t) for t in row if (t if is_case_sensitive else t.lower()) not in stop] for row in rows]
    kept = [row or [""] for row in kept]
    return _texts([t for row in kept for t in row], (*x.shape[:-1], len(kept[0])))


@op("TfIdfVectorizer", raw=True)
def tf_idf_vectorizer(
    call: Call,
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Any:
    values = x.numpy() if isinstance(x, Tensor) else x
    pool: list[Any] = list(pool_int64s or pool_strings or [])
    grams: dict[tuple[Any, ...], int] = {}
    for length, (start, end) in enumerate(zip(ngram_counts, [*ngram_counts[1:], len(pool)]), 1):
        for at in range(start, end, length):
            grams[tuple(pool[at : at + length])] = len(grams)
    width = max(ngram_indexes) + 1
    found = np.zeros((*values.shape[:-1], width), np.float32)
    share = np.ones(len(ngram_indexes)) if weights is None else np.array(weights)
    for row, counts in zip(values.reshape(-1, values.shape[-1]).tolist(), found.reshape(-1, width)):
        for gram in _grams(row, min_gram_length, max_gram_length, max_skip_count):
            if gram in grams:
                counts[ngram_indexes[grams[gram]]] += 1
    by_column = np.zeros(width)
    by_column[ngram_indexes] = share
    if mode == "TF":
        return found
    return (np.minimum(found, 1) * by_column if mode == "IDF" else found * by_column).astype(np.float32)


def _grams(row: list[Any], least: int, most: int, skips: int) -> Any:
    for length in range(least, most + 1):
        for skip in range(1 if length == 1 else skips + 1):
            reach = (length - 1) * (skip + 1)
            for at in range(len(row) - reach):
                yield tuple(row[at : at + reach + 1 : skip + 1])
