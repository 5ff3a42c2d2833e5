"""Writes experts.safetensors: tokens, and what plain loops make of them in place of Dispatch and Combine.

A rank has `slots` rows for each sending rank: first the tokens for its experts, by expert and then by token, then rows
without a token. A token is a row of its rank's tensor.
"""

import os

import numpy as np
from tensors import save

FOLDER = os.path.dirname(os.path.abspath(__file__))


def dispatch(tokens, experts, weights, count, slots):
    """All ranks' results, each with the ranks as its first axis."""
    ranks, length, width = tokens.shape
    local = count // ranks
    rows = np.zeros((ranks, ranks * slots, width), tokens.dtype)
    expert = np.full((ranks, ranks * slots), count, experts.dtype)
    weight = np.zeros((ranks, ranks * slots), weights.dtype)
    source = np.full((ranks, ranks * slots), -1, "int64")
    sent = np.zeros((ranks, ranks), "int64")
    for sender in range(ranks):
        for token in sorted(range(length), key=lambda token: (experts[sender, token], token)):
            receiver = experts[sender, token] // local
            place = sender * slots + sent[sender, receiver]
            rows[receiver, place] = tokens[sender, token]
            expert[receiver, place] = experts[sender, token]
            weight[receiver, place] = weights[sender, token]
            source[receiver, place] = token
            sent[sender, receiver] += 1
    return {"rows": rows, "expert": expert, "weight": weight, "source": source, "sent": sent, "received": sent.T.copy()}


def combine(rows, source, length):
    """The rows of each token, added up."""
    ranks, places, width = rows.shape
    slots = places // ranks
    out = np.zeros((ranks, length, width), rows.dtype)
    for receiver in range(ranks):
        for place in range(places):
            if source[receiver, place] >= 0:
                out[place // slots, source[receiver, place]] += rows[receiver, place]
    return out


def case(table, name, experts, width, count, slots, types, column=False):
    """One set of tokens with what becomes of it; each token's row tells its rank and its place. With `column`, experts
    and weights have a second axis of extent 1, as nvFuser's."""
    experts = np.array(experts, types[1])
    ranks, length = experts.shape
    tokens = (np.arange(ranks * length * width).reshape(ranks, length, width) + 1).astype(types[0]) / 4
    weights = ((np.arange(ranks * length).reshape(ranks, length) % 5) + 1).astype(types[0]) / 8
    table |= {f"{name}.tokens": tokens, f"{name}.experts": experts, f"{name}.weights": weights}
    out = dispatch(tokens, experts, weights, count, slots)
    table |= {f"{name}.{key}": value for key, value in out.items()}
    changed = out["rows"] * np.where(out["expert"] == count, 100, out["expert"] + 2)[..., None].astype(types[0])
    table |= {f"{name}.changed": changed, f"{name}.combined": combine(changed, out["source"], length)}
    for key in ("experts", "weights", "expert", "weight"):
        if column:
            table[f"{name}.{key}"] = table[f"{name}.{key}"][..., None]


table = {}
# As many slots as a rank has tokens: nothing can overflow. All tokens of rank 1 have one expert.
case(table, "two", [[3, 0, 1, 0, 2], [2, 2, 2, 2, 2]], 3, 4, 5, ("float32", "int64"))
# Fewer slots.
case(
    table,
    "four",
    [[7, 0, 3, 1, 4, 0, 5], [1, 1, 6, 2, 5, 7, 3], [4, 6, 2, 0, 4, 3, 1], [5, 3, 7, 7, 6, 0, 0]],
    5,
    8,
    3,
    ("float64", "int32"),
    column=True,
)
# One token of one element, and none.
case(table, "one", [[1], [1]], 1, 2, 1, ("float32", "int64"))
case(table, "none", [[], []], 3, 2, 2, ("float32", "int64"))
# The routing of nvFuser's DispatchCombineTest.
case(table, "nvfuser", [[0, 2, 3, 2], [0, 2, 3, 2]], 4, 4, 4, ("float32", "int64"), column=True)
# An expert that is not there, and a row of another tensor.
table["bad.expert"] = np.array([[3, 0, 4, 0, 2], [2, 2, 2, 2, 2]], "int64")
table["bad.source"] = np.where(table["two.source"] == 3, 7, table["two.source"])
table["bad.twice"] = np.where(table["two.source"] == 3, 2, table["two.source"])
table["twice.combined"] = combine(table["two.changed"], table["bad.twice"], 5)
save(FOLDER, "experts.safetensors", table)
