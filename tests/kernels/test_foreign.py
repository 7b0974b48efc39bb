"""Arrays of anybody who speaks DLPack or __cuda_array_interface__, on the host and on the GPU, without a copy."""

from typing import Any

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, arrays
from kernel_inputs import same_bits

on_gpu = pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")


def here(array: Any) -> Any:
    """An array where the kernels run."""
    return array if _target.SIMULATOR else pytest.importorskip("cupy").asarray(array)


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


class OnlyDlpack:
    """An array that has nothing but the two methods of DLPack."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **given: Any) -> Any:
        return self._array.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnlyInterface:
    """An array that has nothing but its __cuda_array_interface__."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self._array = array


def numba_array(array: Any) -> Any:
    """The same memory as Numba's device array."""
    return pytest.importorskip("numba.cuda").as_cuda_array(array)


def jax_array(array: Any) -> Any:
    return pytest.importorskip("jax").dlpack.from_dlpack(array)


FOREIGN = [OnlyDlpack, *(pytest.param(make, marks=on_gpu) for make in (OnlyInterface, numba_array, jax_array))]


@pytest.mark.parametrize("make", FOREIGN)
def test_a_foreign_array_is_read_where_it_is(make: Any) -> None:
    x = here(np.random.default_rng(1).standard_normal(70).astype(np.float16))
    given = arrays.take(make(x), "x")
    assert (given.name, given.shape) == ("float16", (70,))
    assert given.address == arrays.address(x)


@pytest.mark.parametrize("make", FOREIGN)
def test_products_and_conversions_of_foreign_arrays(make: Any) -> None:
    W = fr.pack_tensor(np.random.default_rng(2).standard_normal((5, 70)), "e4m3")
    x = here(np.random.default_rng(1).standard_normal(70).astype(np.float16))
    plan = fk.prepare(W)
    assert same_bits(host(plan(make(x))), host(plan(x)))
    codes = fk.encode(make(x), "e4m3")
    assert same_bits(host(codes), fr.encode(host(x), "e4m3"))
    assert same_bits(host(fk.decode(make(here(host(codes))), "e4m3")), fr.decode(host(codes), "e4m3"))


def test_memory_that_may_not_be_written_is_read() -> None:
    x = np.ones(8, np.float16)
    x.flags.writeable = False
    W = fr.pack_tensor(np.ones((2, 8)), "e4m3")
    assert fk.gemv(W, x).tolist() == [8, 8]


def test_a_dtype_that_dlpack_gives_and_no_kernel_takes() -> None:
    with pytest.raises(TypeError, match="x"):
        fk.encode(OnlyDlpack(here(np.zeros(3, np.complex64))), "e4m3")


def test_a_sign_that_torch_notes_beside_the_memory() -> None:
    torch = pytest.importorskip("torch")
    place = "cpu" if _target.SIMULATOR else "cuda"
    x = torch.ones(8, device=place)
    for _ in range(2):  # the first call of a kind, and a later one
        assert fk.encode(x, "e4m3").tolist() == [0x38] * 8
        assert fk.encode(torch._neg_view(x), "e4m3").tolist() == [0xB8] * 8


def test_torch_on_the_host_comes_back_to_torch() -> None:
    torch = pytest.importorskip("torch")
    W = fr.pack_tensor(np.ones((2, 8)), "e4m3")
    y = fk.gemv(W, torch.ones(16, dtype=torch.float16)[::2])
    assert isinstance(y, torch.Tensor)
    assert y.device.type == "cpu"
    assert y.tolist() == [8, 8]


@on_gpu
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_torch_on_the_gpu_stays_there(name: str) -> None:
    torch = pytest.importorskip("torch")
    W = fr.pack_tensor(np.random.default_rng(2).standard_normal((5, 70)), "e4m3")
    x = torch.randn(70, device="cuda").to(getattr(torch, name))
    plan = fk.prepare(W, x=name, out=name)
    y = plan(x)
    assert (y.device, y.dtype, tuple(y.shape)) == (x.device, x.dtype, (5,))
    out = torch.full((5,), float("nan"), dtype=x.dtype, device="cuda")
    assert plan(x, out=out) is out
    assert torch.equal(out, y)
    assert torch.equal(plan(torch.stack([x, x], 1)[:, 0]), y)
    assert torch.equal(plan(torch.cat([x[:1], x])[1:]), y)  # 2 or 4 bytes beside 16
