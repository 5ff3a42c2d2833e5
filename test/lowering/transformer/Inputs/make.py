"""Makes transformer.safetensors with torch: layers of a transformer on two devices, forwards and backwards.

    python3 test/lowering/transformer/Inputs/make.py

Gradients are those that torch computes, in double precision, from torch's own layers.
"""

import os
import sys

import torch
import torch.nn.functional as F

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../../run/Inputs"))
from tensors import save  # noqa: E402

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
# Devices, sequences, their length, width, heads of a device, width of a head, columns of the MLP on a device.
D, B, S, E, H, W, C = 2, 2, 3, 8, 2, 4, 5
SCALE, KEEP, EPS = 0.5, 0.8, 1e-5
table = {}


def add(name, tensor):
    tensor = tensor.detach()
    kind = torch.bool if tensor.dtype == torch.bool else torch.float32
    table[name] = tensor.to(kind).contiguous().numpy()


def leaf(name, *shape, around=0.0, width=0.5):
    """A tensor whose numbers are floats, so that the file and this script begin with the same."""
    tensor = (around + width * torch.randn(*shape)).float().double().requires_grad_()
    add(name, tensor)
    return tensor


def mask(name):
    keep = torch.rand(B * S, E) < KEEP
    add(name, keep)
    return keep


def mlp(x, w0, b0, w1, b1, keep):
    linear0 = torch.stack([F.linear(x, w0[d], b0[d]) for d in range(D)])
    gelu = F.gelu(linear0, approximate="tanh")
    linear1 = sum(gelu[d] @ w1[d].T for d in range(D)) + b1
    return linear0, gelu, linear1, linear1 * keep / KEEP


def heads(tensor):
    return tensor.reshape(B, S, H, W).transpose(1, 2)


def mha(x, w0, b0, w1, b1, keep):
    """As mlp(); beside its results the logarithms of the sums that the softmax divides by, and q, k and v."""
    linear0 = torch.stack([F.linear(x, w0[d], b0[d]) for d in range(D)])
    qkv = [torch.stack([heads(linear0[d].chunk(3, -1)[part]) for d in range(D)]) for part in range(3)]
    for part in qkv:
        part.retain_grad()
    out = F.scaled_dot_product_attention(*qkv, is_causal=True, scale=SCALE)
    scores = (qkv[0] @ qkv[1].transpose(-1, -2) * SCALE).masked_fill(~torch.ones(S, S).tril().bool(), -torch.inf)
    columns = [out[d].transpose(1, 2).reshape(B * S, H * W) for d in range(D)]
    linear1 = sum(columns[d] @ w1[d].T for d in range(D)) + b1
    return linear0, out, linear1, linear1 * keep / KEEP, scores.logsumexp(-1), qkv


def statistics(x):
    return x.mean(-1, keepdim=True), (x.var(-1, unbiased=False, keepdim=True) + EPS).rsqrt()


def outputs(prefix, names, tensors):
    for name, tensor in zip(names.split(), tensors):
        add(f"{prefix}.{name}", tensor)


x, grad = leaf("x", B * S, E, width=1), leaf("grad", B * S, E, width=1)
mha_weights = [leaf("mha.w0", D, 3 * H * W, E), leaf("mha.b0", D, 3 * H * W), leaf("mha.w1", D, E, H * W), leaf("mha.b1", E)]
mlp_weights = [leaf("mlp.w0", D, C, E), leaf("mlp.b0", D, C), leaf("mlp.w1", D, E, C), leaf("mlp.b1", E)]
norms = [leaf(name, E, around=around) for name, around in (("ln0.w", 1), ("ln0.b", 0), ("ln1.w", 1), ("ln1.b", 0))]
masks = mha_mask, mlp_mask = mask("mha.mask"), mask("mlp.mask")

# ---- one layer ----
linear0, gelu, linear1, out = mlp(x, *mlp_weights, mlp_mask)
outputs("mlp", "linear0 gelu linear1 out", (linear0, gelu, linear1, out))
for tensor in (linear0, linear1):
    tensor.retain_grad()
out.backward(grad.detach())
outputs("mlp.grad", "dropout w1 b1 gelu w0 b0 x", (linear1.grad, mlp_weights[2].grad, mlp_weights[3].grad, linear0.grad, mlp_weights[0].grad, mlp_weights[1].grad, x.grad))
x.grad = None

linear0, sdpa, linear1, out, sums, qkv = mha(x, *mha_weights, mha_mask)
outputs("mha", "linear0 sdpa linear1 out sums", (linear0, sdpa, linear1, out, sums))
linear1.retain_grad()
out.backward(grad.detach())
outputs("mha.grad", "dropout w1 b1 q k v w0 b0 x", (linear1.grad, mha_weights[2].grad, mha_weights[3].grad, *(part.grad for part in qkv), mha_weights[0].grad, mha_weights[1].grad, x.grad))

# ---- a whole block: norm, attention, sum, norm, MLP, sum ----
for tensor in (x, *mha_weights, *mlp_weights, *norms):
    tensor.grad = None
ln0 = F.layer_norm(x, (E,), norms[0], norms[1], EPS)
mha_linear0, mha_sdpa, mha_linear1, mha_out, mha_sums, _ = mha(ln0, *mha_weights, mha_mask)
resid0 = x + mha_out
ln1 = F.layer_norm(resid0, (E,), norms[2], norms[3], EPS)
mlp_linear0, _, _, mlp_out = mlp(ln1, *mlp_weights, mlp_mask)
resid1 = resid0 + mlp_out
outputs("block", "ln0 mha ln1 mlp out", (ln0, mha_out, ln1, mlp_out, resid1))
outputs("block", "linear0 linear1 sdpa sums mlp.linear0", (mha_linear0, mha_linear1, mha_sdpa, mha_sums, mlp_linear0))
outputs("block", "mean0 rstd0 mean1 rstd1", (*statistics(x), *statistics(resid0)))
resid1.backward(grad.detach())
outputs("block.grad", "mlp.w1 mlp.b1 mlp.w0 mlp.b0", [mlp_weights[k].grad for k in (2, 3, 0, 1)])
outputs("block.grad", "ln1.w ln1.b ln0.w ln0.b", [norms[k].grad for k in (2, 3, 0, 1)])
outputs("block.grad", "mha.w1 mha.b1 mha.w0 mha.b0", [mha_weights[k].grad for k in (2, 3, 0, 1)])
outputs("block.grad", "x", [x.grad])

# ---- a norm, and an MLP of eight devices with a column each ----
norm_x = leaf("norm.x", B, S, E, width=1)
outputs("norm", "out", [F.layer_norm(norm_x, (E,), norms[0], norms[1], EPS)])
split = [leaf(f"split.{name}", *shape) for name, shape in (("w0", (8, E)), ("b0", (8,)), ("w1", (E, 8)), ("b1", (E,)))]
outputs("split", "out", [F.linear(F.gelu(F.linear(x, *split[:2]), approximate="tanh"), *split[2:])])

# ---- the block with the rows across devices: [D, B S / D, ..] ----
for name in ("x", "mha.mask", "mlp.mask", "mlp.linear1", "mlp.out", "mha.linear1", "mha.out", *(f"block.{part}" for part in ("ln0", "mha", "ln1", "mlp", "out"))):
    table[f"rows.{name}"] = table[name].reshape(D, B * S // D, E)
save(here, "transformer.safetensors", table)
