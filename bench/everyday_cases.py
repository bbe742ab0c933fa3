"""The programs of bench/everyday.py: as people write them, for PyTorch and for rulegrad alike.

`t` is the library, `f` its `nn.functional`. Shapes are texts: "2x3 i5" is a matrix of floats and a vector of whole
numbers below 100, "u3" bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """The shapes of tensors, and a function of the library, its functions of neural networks, and these tensors."""

    shapes: str
    call: Callable[..., Any]


def advantages(t: Any, rewards: Any, values: Any, done: Any) -> Any:
    """Generalized advantages, by a loop over the steps."""
    found, last = t.zeros_like(rewards), 0
    for k in reversed(range(len(rewards) - 1)):
        goes_on = 1 - done[k + 1]
        last = rewards[k] + 0.99 * values[k + 1] * goes_on - values[k] + 0.94 * goes_on * last
        found[k] = last
    return found


#: computed
FORWARD: dict[str, Case] = {
    "heads merged product": Case(
        "2x12x512x512 2x12x512x64", lambda t, f, w, v: (w @ v).transpose(1, 2).reshape(2, 512, 768)
    ),
    "outer sum softmax dim1": Case("64x512x64", lambda t, f, x: x.softmax(1)),
    "pairwise distances": Case("512x64 700x64", lambda t, f, a, b: ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)),
    "cdist like": Case("512x64 700x64", lambda t, f, a, b: (a**2).sum(1, keepdim=True) + (b**2).sum(1) - 2 * a @ b.T),
    "cosine similarity": Case("1000x128 1000x128", lambda t, f, a, b: f.cosine_similarity(a, b, dim=1)),
    "normalized matmul": Case(
        "500x128 600x128", lambda t, f, a, b: a / a.norm(dim=1, keepdim=True) @ (b / b.norm(dim=1, keepdim=True)).T
    ),
    "covariance": Case("2000x200", lambda t, f, x: (x - x.mean(0)).T @ (x - x.mean(0)) / 1999),
    "gram batch": Case("16x64x1024", lambda t, f, x: x @ x.transpose(1, 2)),
    "bilinear": Case("64x128 128x32x128 64x128", lambda t, f, a, w, b: t.einsum("bi,ioj,bj->bo", a, w, b)),
    "einsum bqhd": Case("2x256x8x64 2x256x8x64", lambda t, f, q, k: t.einsum("bqhd,bkhd->bhqk", q, k)),
    "einsum bhqk,bkhd": Case("2x8x256x256 2x256x8x64", lambda t, f, w, v: t.einsum("bhqk,bkhd->bqhd", w, v)),
    "einsum chain": Case("32x64 64x48x16 16x40", lambda t, f, a, b, c: t.einsum("ab,bcd,de->ace", a, b, c)),
    "grouped conv": Case("4x32x56x56 32x1x3x3", lambda t, f, x, w: f.conv2d(x, w, padding=1, groups=32)),
    "dilated conv": Case("1x32x64x64 32x32x3x3", lambda t, f, x, w: f.conv2d(x, w, padding=2, dilation=2)),
    "conv1d": Case("8x64x1000 64x64x5", lambda t, f, x, w: f.conv1d(x, w, padding=2)),
    "conv3d": Case("1x8x16x32x32 16x8x3x3x3", lambda t, f, x, w: f.conv3d(x, w, padding=1)),
    "conv transpose": Case("2x32x28x28 32x16x4x4", lambda t, f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1)),
    "unfold patches": Case("4x3x64x64", lambda t, f, x: f.unfold(x, 8, stride=8)),
    "patch embed": Case(
        "4x3x224x224 192x3x16x16", lambda t, f, x, w: f.conv2d(x, w, stride=16).flatten(2).transpose(1, 2)
    ),
    "max pool": Case("8x64x56x56", lambda t, f, x: f.max_pool2d(x, 3, 2, 1)),
    "avg pool": Case("8x64x56x56", lambda t, f, x: f.avg_pool2d(x, 2)),
    "adaptive pool": Case("8x64x28x28", lambda t, f, x: f.adaptive_avg_pool2d(x, 7)),
    "interpolate bilinear": Case("2x16x64x64", lambda t, f, x: f.interpolate(x, scale_factor=2, mode="bilinear")),
    "interpolate nearest": Case("2x16x64x64", lambda t, f, x: f.interpolate(x, scale_factor=2, mode="nearest")),
    "pixel shuffle": Case("4x64x32x32", lambda t, f, x: f.pixel_shuffle(x, 4)),
    "group norm": Case("8x64x32x32", lambda t, f, x: f.group_norm(x, 8)),
    "instance norm": Case("8x64x32x32", lambda t, f, x: f.instance_norm(x)),
    "layer norm": Case("4x512x768", lambda t, f, x: f.layer_norm(x, (768,))),
    "rms norm": Case("4x512x768 768", lambda t, f, x, w: x * (x * x).mean(-1, keepdim=True).add(1e-06).rsqrt() * w),
    "rope": Case(
        "2x8x512x64 512x32 512x32",
        lambda t, f, x, c, s: t.cat([x[..., :32] * c - x[..., 32:] * s, x[..., :32] * s + x[..., 32:] * c], -1),
    ),
    "rope interleaved": Case(
        "2x8x512x64 512x32 512x32",
        lambda t, f, x, c, s: t.stack(
            [x[..., 0::2] * c - x[..., 1::2] * s, x[..., 0::2] * s + x[..., 1::2] * c], -1
        ).flatten(-2),
    ),
    "swiglu": Case("512x768 2048x768 2048x768 768x2048", lambda t, f, x, a, b, c: f.silu(x @ a.T) * (x @ b.T) @ c.T),
    "mlp gelu": Case("512x768 3072x768 768x3072", lambda t, f, x, a, b: f.gelu(x @ a.T) @ b.T),
    "cross entropy": Case("1024x5000 i1024", lambda t, f, x, y: f.cross_entropy(x, y)),
    "topk": Case("64x5000", lambda t, f, x: t.topk(x, 10, -1)[0]),
    "sort rows": Case("64x5000", lambda t, f, x: t.sort(x, -1)[0]),
    "argmax rows": Case("256x5000", lambda t, f, x: x.argmax(-1)),
    "cumsum rows": Case("256x5000", lambda t, f, x: x.cumsum(-1)),
    "gather": Case("512x1000 i512x20", lambda t, f, x, i: t.gather(x, 1, i)),
    "index select rows": Case("5000x128 i3000", lambda t, f, x, i: x[i]),
    "scatter add": Case("100x64 i5000x64 5000x64", lambda t, f, x, i, v: x.scatter_add(0, i, v)),
    "index add": Case("100x64 i5000 5000x64", lambda t, f, x, i, v: x.index_add(0, i, v)),
    "masked fill softmax": Case(
        "8x12x128x128", lambda t, f, x: x.masked_fill(t.ones(128, 128).triu(1).bool(), float("-inf")).softmax(-1)
    ),
    "var std": Case("64x10000", lambda t, f, x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=1)),
    "logsumexp": Case("256x5000", lambda t, f, x: x.logsumexp(-1)),
    "triu mm": Case("512x512 512x512", lambda t, f, a, b: a.tril() @ b),
    "diag mm": Case("512 512x512", lambda t, f, a, b: t.diag(a) @ b),
    "kron": Case("32x32 32x32", lambda t, f, a, b: t.kron(a, b)),
    "outer": Case("2000 2000", lambda t, f, a, b: t.outer(a, b)),
    "roll": Case("64x128x128", lambda t, f, x: x.roll((3, 5), (1, 2))),
    "flip": Case("64x128x128", lambda t, f, x: x.flip(-1)),
    "pad reflect": Case("8x16x64x64", lambda t, f, x: f.pad(x, (2, 2, 2, 2), mode="reflect")),
    "cat many": Case("64x128 64x128 64x128 64x128", lambda t, f, *a: t.cat(a, 1)),
    "repeat interleave": Case("64x8x64", lambda t, f, x: x.repeat_interleave(4, dim=1)),
    "where nan": Case("1000x1000", lambda t, f, x: t.where(x > 0, x.log(), t.zeros_like(x))),
    "huber": Case("100000 100000", lambda t, f, a, b: f.huber_loss(a, b)),
    "kl": Case(
        "512x1000 512x1000", lambda t, f, a, b: f.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean")
    ),
    "attention bias": Case(
        "2x8x256x64 2x8x256x64 2x8x256x64 8x256x256",
        lambda t, f, q, k, v, b: (
            ((q @ k.transpose(-1, -2) / 8 + b).softmax(-1) @ v).transpose(1, 2).reshape(2, 256, 512)
        ),
    ),
    "attention heads last": Case(
        "2x256x8x64 2x256x8x64 2x256x8x64",
        lambda t, f, q, k, v: (
            f.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2).reshape(2, 256, 512)
        ),
    ),
    "linear attention": Case(
        "2x8x512x64 2x8x512x64 2x8x512x64",
        lambda t, f, q, k, v: f.elu(q).add(1) @ (f.elu(k).add(1).transpose(-1, -2) @ v),
    ),
    "window partition": Case(
        "4x56x56x96", lambda t, f, x: x.reshape(4, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96)
    ),
    "channel shuffle": Case(
        "8x64x56x56", lambda t, f, x: x.reshape(8, 4, 16, 56, 56).transpose(1, 2).reshape(8, 64, 56, 56)
    ),
    "se block": Case(
        "8x64x56x56 16x64 64x16",
        lambda t, f, x, a, b: x * t.sigmoid(f.relu(x.mean((2, 3)) @ a.T) @ b.T)[:, :, None, None],
    ),
    "depthwise separable": Case(
        "2x64x56x56 64x1x3x3 128x64x1x1",
        lambda t, f, x, d, p: f.conv2d(f.relu(f.conv2d(x, d, padding=1, groups=64)), p),
    ),
    "bn relu conv": Case(
        "8x32x32x32 32 32 64x32x3x3",
        lambda t, f, x, g, b, w: f.conv2d(
            f.relu(
                (x - x.mean((0, 2, 3), keepdim=True))
                / (x.var((0, 2, 3), keepdim=True, correction=1) + 1e-05).sqrt()
                * g[:, None, None]
                + b[:, None, None]
            ),
            w,
            padding=1,
        ),
    ),
    "fft": Case("64x4096", lambda t, f, x: t.fft.rfft(x).abs()),
    "cross": Case("100000x3 100000x3", lambda t, f, a, b: t.linalg.cross(a, b)),
    "trace": Case("256x64x64", lambda t, f, a: t.einsum("bii->b", a)),
    "stack mean": Case("64x1000 64x1000 64x1000", lambda t, f, a, b, c: t.stack([a, b, c]).mean(0)),
    "quantile": Case("64x2000", lambda t, f, a: t.quantile(a, 0.3, dim=1)),
    "searchsorted": Case("5000 5000", lambda t, f, a, b: t.searchsorted(a.sort()[0], b)),
    "tril indices sum": Case("256x256", lambda t, f, a: a.triu(1).sum(0)),
    "cumprod": Case("256x1000", lambda t, f, a: (a * 0.01 + 1).cumprod(1)),
    "diff": Case("256x5000", lambda t, f, a: a[:, 1:] - a[:, :-1]),
    "strided slice": Case("256x5000", lambda t, f, a: a[:, ::3] * 2),
    "transpose big": Case("2000x3000", lambda t, f, a: a.T.contiguous()),
    "permute 4d": Case("16x64x32x32", lambda t, f, a: a.permute(0, 2, 3, 1).contiguous()),
    "permute back": Case("16x32x32x64", lambda t, f, a: a.permute(0, 3, 1, 2).contiguous()),
    "mean all but channel": Case("16x64x32x32", lambda t, f, a: a.mean((0, 2, 3))),
    "sum dim0": Case("5000x512", lambda t, f, a: a.sum(0)),
    "argmax dim0": Case("5000x512", lambda t, f, a: a.argmax(0)),
    "softmax dim0": Case("512x5000", lambda t, f, a: a.softmax(0)),
    "prod": Case("256x1000", lambda t, f, a: (a * 0.01 + 1).prod(1)),
    "norm dim0": Case("5000x512", lambda t, f, a: a.norm(dim=0)),
    "any": Case("256x5000", lambda t, f, a: (a > 3).any(1)),
    "count": Case("256x5000", lambda t, f, a: (a > 1).sum(1)),
    "clamp abs": Case("1000x1000", lambda t, f, a: a.clamp(-1, 1).abs().sqrt()),
    "pow": Case("1000x1000", lambda t, f, a: (a.abs() + 0.1) ** 1.7),
    "erf etc": Case("1000x1000", lambda t, f, a: t.erf(a) + t.lgamma(a.abs() + 1)),
    "atan2": Case("1000x1000 1000x1000", lambda t, f, a, b: t.atan2(a, b)),
    "sincos": Case("1000x1000", lambda t, f, a: a.sin() * a.cos()),
    "softplus mish": Case("1000x1000", lambda t, f, a: f.mish(a) + f.softplus(a)),
    "int ops": Case("i1000x1000 i1000x1000", lambda t, f, a, b: (a * b + a // (b + 1)) % 7),
    "int matmul": Case("i200x300 i300x200", lambda t, f, a, b: a @ b),
    "bool mask sum": Case("1000x1000 1000x1000", lambda t, f, a, b: (a * (b > 0)).sum(1)),
    "where bcast": Case("1000x1 1x1000", lambda t, f, a, b: t.where(a > b, a, b)),
    "add bcast mid": Case("64x1x512 1x64x512", lambda t, f, a, b: a + b),
    "batched mv": Case("512x64x64 512x64", lambda t, f, a, b: (a @ b[:, :, None])[:, :, 0]),
    "bmm small": Case("4096x8x8 4096x8x8", lambda t, f, a, b: a @ b),
    "bmm odd": Case("64x77x33 64x33x51", lambda t, f, a, b: a @ b),
    "matmul tall": Case("100000x16 16x16", lambda t, f, a, b: a @ b),
    "matmul wide sum": Case("16x100000 100000x16", lambda t, f, a, b: a @ b),
    "matvec": Case("4000x4000 4000", lambda t, f, a, b: a @ b),
    "vecmat": Case("4000 4000x4000", lambda t, f, a, b: a @ b),
    "outer batch": Case("64x128 64x128", lambda t, f, a, b: a[:, :, None] * b[:, None, :]),
    "mahalanobis": Case("1000x64 64x64", lambda t, f, x, m: (x @ m * x).sum(-1)),
    "conv stride2": Case("8x64x56x56 128x64x3x3", lambda t, f, x, w: f.conv2d(x, w, stride=2, padding=1)),
    "conv 1x1": Case("8x256x28x28 64x256x1x1", lambda t, f, x, w: f.conv2d(x, w)),
    "conv 5x5": Case("4x32x32x32 32x32x5x5", lambda t, f, x, w: f.conv2d(x, w, padding=2)),
    "conv 1d depthwise": Case("8x128x512 128x1x4", lambda t, f, x, w: f.conv1d(x, w, padding=3, groups=128)),
    "group conv 4": Case("4x64x32x32 64x16x3x3", lambda t, f, x, w: f.conv2d(x, w, padding=1, groups=4)),
    "lp pool": Case("4x16x64x64", lambda t, f, x: f.lp_pool2d(x, 2, 2)),
    "grid sample": Case("2x8x64x64 2x64x64x2", lambda t, f, x, g: f.grid_sample(x, g.tanh(), align_corners=False)),
    "fold": Case("2x576x256", lambda t, f, x: f.fold(x, (16, 16), 3, padding=1)),
    "dropout eval": Case("1000x1000", lambda t, f, x: f.dropout(x, 0.5, training=False) * 2),
    "embedding sum": Case("i256x32 5000x128", lambda t, f, i, w: w[i].sum(1)),
    "take along": Case("256x512 i256x64", lambda t, f, x, i: t.take_along_dim(x, i, 1)),
    "nll gather": Case("2000x100 i2000", lambda t, f, x, i: -x.log_softmax(-1).gather(1, i[:, None]).mean()),
    "moe gate": Case(
        "512x64 64x8", lambda t, f, x, w: (lambda v: v[0].softmax(-1).sum() + v[1].sum())((x @ w).topk(2, -1))
    ),
    "masked mean": Case(
        "64x128x256 64x128", lambda t, f, x, m: (x * (m > 0)[:, :, None]).sum(1) / (m > 0).sum(1, keepdim=True)
    ),
    "alibi": Case(
        "8 1x8x128x128",
        lambda t, f, s, a: (a + s.abs()[:, None, None] * (t.arange(128)[None] - t.arange(128)[:, None])).softmax(-1),
    ),
    "positional": Case(
        "512x64",
        lambda t, f, x: (
            x
            + t.cat(
                [
                    (t.arange(512)[:, None] / 10000 ** (t.arange(32) / 32)).sin(),
                    (t.arange(512)[:, None] / 10000 ** (t.arange(32) / 32)).cos(),
                ],
                -1,
            )
        ),
    ),
    "multi slice sum": Case(
        "64x100x100",
        lambda t, f, x: x[:, 1:-1, 1:-1] * 4 - x[:, :-2, 1:-1] - x[:, 2:, 1:-1] - x[:, 1:-1, :-2] - x[:, 1:-1, 2:],
    ),
    "life": Case("512x512", lambda t, f, x: sum(x.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))),
    "haversine": Case(
        "1000 1000",
        lambda t, f, a, b: (
            ((a[:, None] - b[None]).sin() ** 2 + a.cos()[:, None] * b.cos()[None]).clamp(0, 1).sqrt().asin()
        ),
    ),
    "rbf kernel": Case("500x16 600x16", lambda t, f, a, b: (-(t.cdist(a, b) ** 2)).exp()),
    "linear glu": Case("256x512 2048x512", lambda t, f, x, w: f.glu(x @ w.T, -1)),
    "few classes": Case("100000x10 10", lambda t, f, x, b: f.softplus(x + b)),
    "quadratic forms": Case("256x64 256x64x64 256x64", lambda t, f, x, m, y: t.einsum("bi,bij,bj->b", x, m, y)),
    "shift right": Case("32x100x64", lambda t, f, x: t.cat([t.zeros(32, 1, 64, dtype=x.dtype), x[:, :-1]], 1)),
    "sums of both axes": Case("500x500", lambda t, f, x: x.sum(0) + x.sum(1)),
    "spatial softmax": Case(
        "512x32x32",
        lambda t, f, x: (lambda p: p.sum(1) @ t.linspace(-1, 1, 32, dtype=x.dtype))(
            x.flatten(1).softmax(-1).reshape(512, 32, 32)
        ),
    ),
    "knn": Case("1000x32 1000x32", lambda t, f, a, b: t.cdist(a, b).topk(5, -1, largest=False)[0]),
    "kmeans step": Case(
        "5000x16 20x16", lambda t, f, x, c: (lambda a: t.zeros_like(c).index_add(0, a, x))(t.cdist(x, c).argmin(1))
    ),
    "hflip": Case("8x3x224x224", lambda t, f, x: x.flip(-1)),
    "vflip": Case("8x3x224x224", lambda t, f, x: x.flip(-2)),
    "flip bytes": Case("u8x224x224x3", lambda t, f, x: x.flip(2)),
    "depthwise stride 2": Case(
        "8x64x56x56 64x1x3x3", lambda t, f, x, w: f.conv2d(x, w, stride=2, padding=1, groups=64)
    ),
    "depthwise 7": Case("4x96x28x28 96x1x7x7", lambda t, f, x, w: f.conv2d(x, w, padding=3, groups=96)),
    "dense conv 14": Case("8x256x14x14 256x256x3x3", lambda t, f, x, w: f.conv2d(x, w, padding=1)),
    "conv mnist 5": Case("64x6x12x12 16x6x5x5 16", lambda t, f, x, w, b: f.relu(f.conv2d(x, w, b))),
    "conv1d stride2": Case("2x384x1500 384x384x3", lambda t, f, x, w: f.conv1d(x, w, padding=1, stride=2)),
    "conv1d long": Case("1x1x100000 16x1x64", lambda t, f, x, w: f.conv1d(x, w)),
    "conv first layer": Case("4x3x224x224 64x3x7x7", lambda t, f, x, w: f.conv2d(x, w, stride=2, padding=3)),
    "conv transpose 3": Case(
        "4x64x16x16 64x32x3x3", lambda t, f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)
    ),
    "tile rows": Case("100x1000", lambda t, f, x: t.tile(x, (3, 2))),
    "mod 0.7": Case("1000x500", lambda t, f, x: x % 0.7),
    "cummax": Case("256x1000", lambda t, f, x: t.cummax(x, 1)),
    "linear 1 row": Case("1x768 3072x768", lambda t, f, x, w: x @ w.T),
    "small gather": Case("64x100 i64x5", lambda t, f, x, i: x.gather(1, i)),
    "small index": Case("100x64 i50", lambda t, f, x, i: x[i]),
    "small scatter": Case("64x100 i64x5 64x5", lambda t, f, x, i, v: x.scatter(1, i, v)),
    "retention": Case(
        "2x8x256x64 2x8x256x64 2x8x256x64",
        lambda t, f, q, k, v: (
            (
                q
                @ k.transpose(-1, -2)
                * (t.arange(256)[:, None] >= t.arange(256)[None])
                * (0.97 ** (t.arange(256)[:, None] - t.arange(256)[None]).abs())
            )
            @ v
        ),
    ),
    "irfft": Case("64x4096", lambda t, f, x: t.fft.irfft(t.fft.rfft(x))),
    "siren": Case("1000x2 256x2 256x256 1x256", lambda t, f, x, a, b, c: ((30 * (x @ a.T)).sin() @ b.T).sin() @ c.T),
    "means of bytes": Case("u1000x1000", lambda t, f, x: x.float().mean(1)),
    "bytes to float": Case("u8x3x224x224", lambda t, f, x: x.float() / 255),
    "image normalize": Case(
        "u8x3x224x224 3 3", lambda t, f, x, m, s: (x.float() / 255 - m[:, None, None]) / s[:, None, None]
    ),
    "image nhwc to nchw": Case("u8x224x224x3", lambda t, f, x: x.permute(0, 3, 1, 2).float() / 255),
    "float to bytes": Case("8x3x224x224", lambda t, f, x: (x.clamp(0, 1) * 255).to(t.uint8)),
    "int8 dequant": Case("u1024x1024 1024", lambda t, f, x, s: (x.float() - 128) * s[:, None]),
    "nearest odd": Case("4x16x50x50", lambda t, f, x: f.interpolate(x, size=(71, 83), mode="nearest")),
    "bilinear down": Case("4x3x224x224", lambda t, f, x: f.interpolate(x, size=(112, 112), mode="bilinear")),
    "permute 4 axes": Case("16x64x32x32", lambda t, f, x: x.permute(3, 1, 0, 2).contiguous()),
    "topk logits": Case("8x50257", lambda t, f, x: t.topk(x, 50, -1)[0]),
    "cumsum dim0": Case("5000x256", lambda t, f, x: x.cumsum(0)),
    "masked fill bcast": Case("8x12x128x128 8x1x1x128", lambda t, f, x, m: x.masked_fill(m > 0.5, -1e9)),
    "unfold 3x3": Case("4x16x64x64", lambda t, f, x: f.unfold(x, 3, padding=1)),
    "rotate points": Case("64x3x3 64x1000x3", lambda t, f, r, p: t.einsum("bij,bnj->bni", r, p)),
    "einsum nctv": Case("8x64x50x25 25x25", lambda t, f, x, a: t.einsum("nctv,vw->nctw", x, a)),
    "argsort small": Case("1000x32", lambda t, f, x: t.argsort(x, -1)),
    "logsumexp dim0": Case("1000x500", lambda t, f, x: x.logsumexp(0)),
    "var dim0": Case("5000x256", lambda t, f, x: x.var(0, correction=1)),
    "avg pool 3": Case("8x64x28x28", lambda t, f, x: f.avg_pool2d(x, 3, 1, 1)),
    "global pool": Case("8x512x7x7", lambda t, f, x: f.adaptive_avg_pool2d(x, 1)),
    "adaptive pool 6 of 13": Case("8x64x13x13", lambda t, f, x: f.adaptive_avg_pool2d(x, 6)),
    "graph scatter 1d": Case("i20000 20000", lambda t, f, d, x: t.zeros(100).scatter_add(0, d, x)),
    "softmax dim1 nchw": Case("4x21x64x64", lambda t, f, x: x.softmax(1)),
    "layer norm channels first": Case(
        "4x96x56x56 96 96",
        lambda t, f, x, g, b: (
            (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-6).sqrt() * g[:, None, None]
            + b[:, None, None]
        ),
    ),
    "batch norm eval": Case(
        "8x64x56x56 64 64 64 64", lambda t, f, x, m, v, g, b: f.relu(f.batch_norm(x, m, v.abs() + 0.1, g, b))
    ),
    "gelu alone": Case("512x3072", lambda t, f, x: f.gelu(x)),
    "sum small rows": Case("100000x8", lambda t, f, x: x.sum(1)),
    "linear classifier": Case("64x512 1000x512 1000", lambda t, f, x, w, b: f.linear(x, w, b)),
    "floor div": Case("1000x1000 1000x1000", lambda t, f, x, y: x // y),
    "fft2": Case("8x64x64", lambda t, f, x: t.fft.rfft2(x).abs()),
    "kv attention": Case(
        "1x12x1x64 1x12x512x64 1x12x512x64", lambda t, f, q, k, v: f.scaled_dot_product_attention(q, k, v)
    ),
    "advantages": Case("128x8 128x8 128x8", lambda t, f, r, v, d: advantages(t, r, v, d)),
    "triangle mult": Case("64x64x32 64x64x32", lambda t, f, a, b: t.einsum("ikc,jkc->ijc", a, b)),
}
