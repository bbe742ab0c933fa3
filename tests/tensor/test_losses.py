"""Softmax, one-hot vectors and losses against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import ConfigError, DtypeError, ShapeError

X = np.array([[1.0, 2.0, 3.0, -1.0], [1000.0, 0.0, 999.0, -1000.0], [0.0] * 4], np.float32)
LABELS = np.array([2, 0, 3])


def _log_softmax(x, axis=-1):
    x = x.astype(np.float64)
    shifted = x - x.max(axis, keepdims=True)
    return (shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))).astype(np.float32)


def test_softmax(device, check):
    x = Tensor(X)
    infinite = np.array([[-np.inf, 0.0], [-np.inf, -np.inf], [np.inf, 0.0]], np.float32)
    check(
        (x.softmax(), np.exp(_log_softmax(X))),
        (x.softmax(axis=0), np.exp(_log_softmax(X, 0))),
        (x.log_softmax(dim=-1), _log_softmax(X)),
        (x.logsumexp(), X.max(-1) - _log_softmax(X).max(-1)),
        (x.logsumexp((0, 1)), np.logaddexp.reduce(X, (0, 1))),
        (x.logsumexp(None, keepdims=True), np.logaddexp.reduce(X, (0, 1), keepdims=True)),
        (x.logsumexp(0, keepdims=True), (X.max(0) - _log_softmax(X, 0).max(0))[None]),
        (Tensor(infinite).logsumexp(), np.array([0, -np.inf, np.inf], np.float32)),
        (Tensor(infinite[:1]).softmax(), np.array([[0, 1]], np.float32)),
    )


def test_one_hot_and_cross_entropy(device, check):
    scores, labels = Tensor(X), Tensor(LABELS)
    each = -_log_softmax(X)[np.arange(3), LABELS]
    smooth = 0.9 * each - 0.1 * _log_softmax(X).mean(-1)
    check(
        (labels.one_hot(4), np.eye(4, dtype=bool)[LABELS]),
        (scores.cross_entropy(labels), each.mean()),
        (scores.cross_entropy(labels, reduction="sum"), each.sum()),
        (scores.cross_entropy(labels, reduction="none"), each),
        (scores.cross_entropy(LABELS), each.mean()),
        (scores.T.cross_entropy(labels, axis=0), each.mean()),
        (scores.cross_entropy(labels, label_smoothing=0.1), smooth.mean().astype(np.float32)),
    )


def test_other_losses(device, check):
    logits, target = X[0], np.array([0.0, 1.0, 0.5, 1.0], np.float32)
    expected = np.log1p(np.exp(logits.astype(np.float64))) - logits * target
    check(
        (Tensor(logits).binary_cross_entropy_with_logits(Tensor(target)), expected.mean().astype(np.float32)),
        (Tensor(logits).mse_loss(Tensor(target)), ((logits - target) ** 2).mean()),
    )


def test_errors():
    scores = Tensor.ones(3, 4)
    with pytest.raises(ShapeError, match=r"labels of shape \(4,\) for scores of shape \(3, 4\).*\(3,\)"):
        scores.cross_entropy(Tensor.zeros(4, dtype="int64"))
    with pytest.raises(DtypeError, match="the labels are float32"):
        scores.cross_entropy(Tensor.zeros(3))
    with pytest.raises(ConfigError, match="unknown reduction 'max'"):
        scores.mse_loss(scores, reduction="max")
