"""The programs of bench/everyday.py that are differentiated, as those of everyday_cases."""

from __future__ import annotations

from typing import Any

from everyday_cases import Case


def leaky_neurons(t: Any, x: Any, w: Any) -> Any:
    """Charges that leak, and what they fire in each step."""
    charge, fired = x[0] * 0, []
    for step in x:
        charge = 0.9 * charge + step * w
        fired.append(t.sigmoid(5 * (charge - 1)))
        charge = charge - fired[-1]
    return t.stack(fired).square().mean()


#: differentiated by all inputs of floats
LOSSES: dict[str, Case] = {
    "kl": Case(
        "512x1000 512x1000", lambda t, f, a, b: f.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean")
    ),
    "softmax mse": Case("512x1000 512x1000", lambda t, f, a, b: f.mse_loss(a.softmax(-1), b)),
    "layer norm sum": Case("2048x768 768 768", lambda t, f, x, g, b: (f.layer_norm(x, (768,), g, b) ** 2).mean()),
    "rms norm": Case(
        "2048x768 768", lambda t, f, x, w: (x * (x * x).mean(-1, keepdim=True).add(1e-06).rsqrt() * w).square().sum()
    ),
    "group norm": Case("8x64x32x32 64 64", lambda t, f, x, g, b: f.group_norm(x, 8, g, b).square().mean()),
    "batch norm by hand": Case(
        "16x64x32x32 64 64",
        lambda t, f, x, g, b: (
            (
                (x - x.mean((0, 2, 3), keepdim=True))
                / (x.var((0, 2, 3), keepdim=True, correction=1) + 1e-05).sqrt()
                * g[:, None, None]
                + b[:, None, None]
            )
            ** 2
        ).mean(),
    ),
    "cross entropy": Case("1024x5000 i1024", lambda t, f, x, y: f.cross_entropy(x, y)),
    "label smoothing": Case("1024x1000 i1024", lambda t, f, x, y: f.cross_entropy(x, y, label_smoothing=0.1)),
    "bce logits": Case(
        "1000x500 1000x500", lambda t, f, x, y: f.binary_cross_entropy_with_logits(x, y.sigmoid().detach())
    ),
    "cosine contrastive": Case(
        "512x128 512x128",
        lambda t, f, a, b: f.cross_entropy(
            a / a.norm(dim=1, keepdim=True) @ (b / b.norm(dim=1, keepdim=True)).T / 0.07, t.arange(512)
        ),
    ),
    "contrastive both ways": Case(
        "256x128 256x128",
        lambda t, f, a, b: (lambda s: f.cross_entropy(s, t.arange(256)) + f.cross_entropy(s.T, t.arange(256)))(
            f.normalize(a, dim=-1) @ f.normalize(b, dim=-1).T * 14
        ),
    ),
    "triplet": Case("512x128 512x128 512x128", lambda t, f, a, p, n: f.triplet_margin_loss(a, p, n)),
    "pairwise": Case(
        "300x64 300x64", lambda t, f, a, b: ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1).add(0.001).sqrt().mean()
    ),
    "gaussian nll": Case(
        "5000x64 5000x64 5000x64", lambda t, f, m, s, x: (0.5 * ((x - m) ** 2 * (-s).exp() + s)).sum(-1).mean()
    ),
    "vae kl": Case("5000x64 5000x64", lambda t, f, m, s: (-0.5 * (1 + s - m**2 - s.exp()).sum(1)).mean()),
    "embedding": Case("i64x100 5000x128", lambda t, f, i, w: (w[i] ** 2).mean()),
    "embedding bag": Case("i2000x10 5000x64", lambda t, f, i, w: (w[i].mean(1) ** 2).sum()),
    "attention": Case(
        "2x8x256x64 2x8x256x64 2x8x256x64",
        lambda t, f, q, k, v: f.scaled_dot_product_attention(q, k, v).square().mean(),
    ),
    "attention causal heads last": Case(
        "2x256x8x64 2x256x8x64 2x256x8x64",
        lambda t, f, q, k, v: (
            f.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
            .transpose(1, 2)
            .reshape(2, 256, 512)
            .square()
            .mean()
        ),
    ),
    "mlp": Case(
        "512x784 256x784 256 10x256 10 i512",
        lambda t, f, x, w, b, v, c, y: f.cross_entropy(f.relu(x @ w.T + b) @ v.T + c, y % 10),
    ),
    "conv small": Case(
        "32x1x28x28 16x1x3x3 32x16x3x3 10x1568 i32",
        lambda t, f, x, a, b, w, y: f.cross_entropy(
            f.max_pool2d(f.relu(f.conv2d(f.max_pool2d(f.relu(f.conv2d(x, a, padding=1)), 2), b, padding=1)), 2).flatten(
                1
            )
            @ w.T,
            y % 10,
        ),
    ),
    "depthwise": Case("8x64x28x28 64x1x3x3", lambda t, f, x, w: f.conv2d(x, w, padding=1, groups=64).square().mean()),
    "conv transpose": Case(
        "2x32x28x28 32x16x4x4", lambda t, f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1).square().mean()
    ),
    "conv1d": Case("8x64x1000 64x64x5", lambda t, f, x, w: f.conv1d(x, w, padding=2).square().mean()),
    "avg pool": Case("8x64x56x56", lambda t, f, x: f.avg_pool2d(x, 2).square().mean()),
    "max pool": Case("8x64x56x56", lambda t, f, x: f.max_pool2d(x, 3, 2, 1).square().mean()),
    "interpolate": Case(
        "2x16x64x64", lambda t, f, x: f.interpolate(x, scale_factor=2, mode="bilinear").square().mean()
    ),
    "gelu mlp": Case("256x512 2048x512 512x2048", lambda t, f, x, a, b: (f.gelu(x @ a.T) @ b.T).square().mean()),
    "swiglu": Case(
        "256x512 1365x512 1365x512 512x1365",
        lambda t, f, x, a, b, c: (f.silu(x @ a.T) * (x @ b.T) @ c.T).square().mean(),
    ),
    "einsum bilinear": Case(
        "64x128 128x32x128 64x128", lambda t, f, a, w, b: t.einsum("bi,ioj,bj->bo", a, w, b).square().sum()
    ),
    "logsumexp": Case("256x5000", lambda t, f, x: x.logsumexp(-1).sum()),
    "cumsum": Case("256x5000", lambda t, f, x: x.cumsum(-1).square().mean()),
    "sort": Case("64x5000", lambda t, f, x: (t.sort(x, -1)[0] * t.arange(5000)).mean()),
    "gather": Case("512x1000 i512x20", lambda t, f, x, i: t.gather(x, 1, i).square().mean()),
    "scatter mean": Case(
        "i5000 5000x64", lambda t, f, i, x: t.zeros(100, 64, dtype=x.dtype).index_add(0, i, x).square().mean()
    ),
    "gcn": Case(
        "1000x64 64x32 i8000 i8000",
        lambda t, f, x, w, s, d: t.zeros(1000, 32, dtype=x.dtype).index_add(0, d * 10, (x @ w)[s * 10]).square().mean(),
    ),
    "lstm cell": Case(
        "64x128 64x256 64x256 1024x128 1024x256",
        lambda t, f, x, h, c, wi, wh: (
            lambda g: (g[2].sigmoid() * (g[0].sigmoid() * g[1].tanh() + g[3].sigmoid() * c).tanh()).mean()
        )((x @ wi.T + h @ wh.T).chunk(4, -1)),
    ),
    "dice": Case(
        "8x4x64x64 8x4x64x64",
        lambda t, f, x, y: (
            1
            - (
                2 * (x.softmax(1) * y.sigmoid()).sum((2, 3)) / (x.softmax(1).sum((2, 3)) + y.sigmoid().sum((2, 3)) + 1)
            ).mean()
        ),
    ),
    "total variation": Case(
        "4x3x128x128",
        lambda t, f, x: (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean(),
    ),
    "ssim like": Case(
        "2x3x64x64 2x3x64x64",
        lambda t, f, x, y: (lambda m: (f.avg_pool2d(x * y, 7, 1) - m[0] * m[1]).mean())(
            (f.avg_pool2d(x, 7, 1), f.avg_pool2d(y, 7, 1))
        ),
    ),
    "weight norm": Case(
        "256x512 512x512 512",
        lambda t, f, x, v, g: (x @ (v * (g[:, None] / v.norm(dim=1, keepdim=True))).T).square().mean(),
    ),
    "spectral reg": Case("512x512", lambda t, f, w: ((w.T @ w - t.eye(512)) ** 2).sum()),
    "correlation": Case(
        "1000x64", lambda t, f, x: (lambda z: (z.T @ z / 1000).square().sum())((x - x.mean(0)) / x.std(0, correction=1))
    ),
    "barlow": Case(
        "512x128 512x128",
        lambda t, f, a, b: (
            (
                ((a - a.mean(0)) / a.std(0, correction=1)).T @ ((b - b.mean(0)) / b.std(0, correction=1)) / 512
                - t.eye(128)
            )
            ** 2
        ).sum(),
    ),
    "mixture": Case(
        "2000x1 1x50 1x50", lambda t, f, x, m, s: -(-0.5 * ((x - m) / s.exp()) ** 2 - s).logsumexp(-1).mean()
    ),
    "nerf encoding": Case(
        "4000x3 63x64",
        lambda t, f, x, w: (
            (t.cat([x] + [f(x * 2.0**k) for k in range(10) for f in (t.sin, t.cos)], -1) @ w).square().mean()
        ),
    ),
    "leaky neurons": Case("25x64x100 100", lambda t, f, x, w: leaky_neurons(t, x, w)),
}
