"""Images and signals that are split along their axes: neighbours exchange borders, and values are those of one device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, communication, nn, optim
from rulegrad.distributed import Mesh, data_parallel, placement, shard

_random = np.random.default_rng(5)
IMAGES = _random.standard_normal((2, 3, 16, 6)).astype(np.float32)
WEIGHTS = _random.standard_normal((4, 3, 3, 3)).astype(np.float32)

#: What is computed of images, which are split along their height, and weights.
CASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "padded": lambda x, w: x.conv2d(w, padding=1),
    "valid": lambda x, w: x.conv2d(w),
    "stride": lambda x, w: x.conv2d(w, stride=(2, 1), padding=1),
    "dilation": lambda x, w: x.conv2d(w, padding=2, dilation=2),
    "odd height": lambda x, w: x[:, :, :13].conv2d(w, padding=1),
    "transposed": lambda x, w: x.conv_transpose2d(w.transpose(0, 1), stride=2, padding=1),
    "mean pooling": lambda x, w: x.avg_pool2d(3, 1, 1) * w[0, 0, 0, 0],
    "max pooling": lambda x, w: x.max_pool2d(3, 2, 1) * w[0, 0, 0, 0],
    "pooling apart": lambda x, w: x.max_pool2d(2) * w[0, 0, 0, 0],
    "unfold": lambda x, w: x.unfold(2, 4, 2) * w[0, 0, 0, 0],
    "columns": lambda x, w: x.im2col(3, padding=1) * w[0, 0, 0, 0],
    "two layers": lambda x, w: (x.conv2d(w, padding=1).relu() * 0.1)[:, :3].conv2d(w, padding=1),
    "far dilation": lambda x, w: x.conv2d(w, padding=(5, 1), dilation=(5, 1)),
    "long windows": lambda x, w: x.unfold(2, 7, 1) * w[0, 0, 0, 0],
    "long pooling": lambda x, w: x.max_pool2d((7, 1), (2, 1), (3, 0)) * w[0, 0, 0, 0],
    "far difference": lambda x, w: (x[:, :, 6:] - x[:, :, :-6]) * w[0, 0, 0, 0],
    "shifted difference": lambda x, w: (x[:, :, 1:] - x[:, :, :-1]) * w[0, 0, 0, 0],
}


def computed(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor) -> list[Tensor]:
    """The result, and the gradients of the images and the weights."""
    x, w = x.requires_grad_(), w.requires_grad_()
    result = function(x, w)
    (result * result.sin()).sum().backward()
    assert x.grad is not None and w.grad is not None
    Tensor.realize(result, x.grad, w.grad)
    return [result, x.grad, w.grad]


@pytest.mark.each_value
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, count: int) -> None:
    function = CASES[case]
    expected = computed(function, Tensor(IMAGES, device="numpy"), Tensor(WEIGHTS, device="numpy"))
    mesh = Mesh({"height": count}, device=f"numpy*{count}")
    found = computed(function, shard(IMAGES, mesh, height=2), Tensor(WEIGHTS, device=mesh.device))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-4, atol=2e-4)
    assert placement(found[0], mesh) == {"height": 2}


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_convolution_sends_its_borders_once(count: int) -> None:
    """One row to each neighbour, however many devices there are: the padding is put together with the windows."""
    mesh = Mesh({"height": count}, device=f"numpy*{count}")
    x, w = shard(IMAGES, mesh, height=2).realize(), Tensor(WEIGHTS, device=mesh.device).realize()
    communication.reset_counters()
    x.conv2d(w, padding=1).realize()
    sent = {kind: (counted.calls, counted.bytes) for kind, counted in communication.counters().items() if counted.calls}
    assert sent == {"shift": (2, 2 * 2 * 3 * 6 * 4)}  # two rows of all images and channels


def test_a_kernel_of_one_column_sends_its_borders_once() -> None:
    mesh = Mesh({"height": 4}, device="numpy*4")
    x, w = shard(IMAGES, mesh, height=2).realize(), Tensor(WEIGHTS[..., :1], device=mesh.device).realize()
    communication.reset_counters()
    found = x.conv2d(w, padding=(1, 0)).realize()
    assert communication.counters()["shift"].bytes == 2 * 2 * 3 * 6 * 4
    expected = Tensor(IMAGES, device="numpy").conv2d(Tensor(WEIGHTS[..., :1], device="numpy"), padding=(1, 0))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_windows_of_both_axes_of_the_image() -> None:
    mesh = Mesh({"height": 2, "width": 3}, device="numpy*6")
    expected = Tensor(IMAGES, device="numpy").conv2d(Tensor(WEIGHTS, device="numpy"), padding=1)
    found = shard(IMAGES, mesh, height=2, width=3).conv2d(Tensor(WEIGHTS, device=mesh.device), padding=1)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    assert placement(found, mesh) == {"height": 2, "width": 3}


@pytest.mark.parametrize(
    ("count", "rows", "shifts", "sent"),
    [
        (4, 7, 2, 6),  # 3 of each neighbour's 4 rows
        (8, 7, 4, 6),  # both rows of each neighbour, and one of the next one's
        (8, 13, 6, 12),
        (8, 15, 0, 14),  # as many as all others have
    ],
)
def test_a_window_longer_than_a_part_is_sent_by_several_devices(count: int, rows: int, shifts: int, sent: int) -> None:
    mesh = Mesh({"height": count}, device=f"numpy*{count}")
    x = shard(IMAGES, mesh, height=2).realize()
    weights = np.random.default_rng(1).standard_normal((2, 3, rows, 3)).astype(np.float32)
    w, expected = Tensor(weights, device=mesh.device).realize(), Tensor(IMAGES, device="numpy")
    communication.reset_counters()
    found = x.conv2d(w, padding=(rows // 2, 1)).realize()
    counted = {kind: (one.calls, one.bytes) for kind, one in communication.counters().items() if one.calls}
    calls = ("shift", shifts) if shifts else ("all_gather", 1)
    assert counted == {calls[0]: (calls[1], sent * 2 * 3 * 6 * 4)}
    wanted = expected.conv2d(Tensor(weights, device="numpy"), padding=(rows // 2, 1))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)
    assert placement(found, mesh) == {"height": 2}


def test_windows_that_reach_to_all_devices_are_gathered() -> None:
    mesh = Mesh({"height": 4}, device="numpy*4")
    x = shard(IMAGES, mesh, height=2)
    assert x.unfold(2, 14, 1).sum(-1).numpy() == pytest.approx(
        np.lib.stride_tricks.sliding_window_view(IMAGES, 14, 2).sum(-1), abs=1e-4
    )
    assert placement(x.unfold(2, 14, 1), mesh) == {}


def losses(device: str, mesh: Mesh | None) -> list[float]:
    """Of three captured steps of a small network with batch normalization, pooling and a residual."""
    rulegrad.manual_seed(2)
    with rulegrad.config(device="numpy"):
        first, second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
        norm, head = nn.BatchNorm2d(4), nn.Linear(4, 3)
        model = nn.ModuleList([first, second, norm, head])
        Tensor.realize(*model.state_dict().values())
    x, y = Tensor(IMAGES, device=device), Tensor([0, 2], device=device)
    if mesh is None:
        model.to(device)
    else:
        data_parallel(model, mesh)
        axes = {"data": 0, "height": 2} if "data" in mesh.names else {"height": 2}
        x, y = shard(x, mesh, **axes), shard(y, mesh, **({"data": 0} if "data" in mesh.names else {}))
    optimizer = optim.AdamW(model.parameters(), lr=0.02)

    @rulegrad.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        z = norm(first(x)).relu()
        z = second(z + z.max_pool2d(3, 1, 1)).relu().mean((2, 3))
        loss = head(z).cross_entropy(y)
        loss.backward()
        optimizer.step()
        return loss

    return [step(x, y).item() for _ in range(3)]


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [{"height": 2}, {"data": 2, "height": 2}])
@pytest.mark.parametrize("device", ["numpy", "c"])
def test_training(device: str, sizes: dict[str, int]) -> None:
    mesh = Mesh(sizes, device=f"{device}*{np.prod(list(sizes.values()))}")
    assert losses(mesh.device, mesh) == pytest.approx(losses("numpy", None), rel=2e-4)
