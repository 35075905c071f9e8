#!/usr/bin/env python3
"""Records what PyTorch computes for GRU, LSTM and attention, as text files beside this script.

Needs PyTorch (recorded with 1.13.1 on the CPU, in double). The tests read the files only
(tests/layers/sequence_recordings_test.cc); run this again to make other cases.

A file has a line for the layer's type, one for its parameters, and one for each tensor in the
order of the layer's bottoms, blobs and tops: kind, shape, ":", values. Kinds: input, learned,
output_grad, output, input_grad ("-": none), learned_grad.
"""
import os

import torch

torch.set_default_dtype(torch.float64)
FOLDER = os.path.dirname(os.path.abspath(__file__))


def draw(generator, *shape, scale=1.0):
    """Multiples of 1/64, so that f32 and short texts hold them."""
    values = torch.rand(*shape, generator=generator) * 2 - 1
    return torch.round(values * scale * 64) / 64


def write(name, layer_type, prototxt, inputs, learned, output_grads, outputs, input_grads,
          learned_grads):
    lines = [layer_type, prototxt]
    for kind, tensors in (("input", inputs), ("learned", learned), ("output_grad", output_grads),
                          ("output", outputs), ("input_grad", input_grads),
                          ("learned_grad", learned_grads)):
        for tensor in tensors:
            if tensor is None:
                lines.append(kind + " -")
                continue
            shape = " ".join(str(extent) for extent in tensor.shape)
            values = " ".join(f"{value:.12g}" for value in tensor.detach().flatten().tolist())
            lines.append(f"{kind} {shape} : {values}")
    with open(os.path.join(FOLDER, name + ".txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def lstm_rows(blob):
    """PyTorch's gates i, f, g, o in Caffe's order i, f, o, g."""
    i, f, g, o = blob.chunk(4)
    return torch.cat([i, f, o, g])


def recurrent(name, kind, bidirectional):
    generator = torch.Generator().manual_seed(len(name))
    steps, streams, features, hidden = 4, 2, 3, 2
    net = getattr(torch.nn, kind)(features, hidden, bidirectional=bidirectional)
    states = 2 if kind == "LSTM" else 1
    directions = 2 if bidirectional else 1
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(draw(generator, *parameter.shape))
        if kind == "LSTM":  # ours has one bias
            for key, parameter in net.named_parameters():
                if key.startswith("bias_hh"):
                    parameter.zero_()
    x = draw(generator, steps, streams, features, scale=2).requires_grad_()
    initial = [draw(generator, directions, streams, hidden).requires_grad_() for _ in range(states)]
    y, final = net(x, tuple(initial) if states == 2 else initial[0])
    outputs = [y, *(final if states == 2 else [final])]
    grads = [draw(generator, *output.shape) for output in outputs]
    torch.autograd.backward(outputs, grads)
    cont = [torch.ones(steps, streams)] if kind == "LSTM" else []
    order = ["weight_ih", "bias_ih", "weight_hh"] + ([] if kind == "LSTM" else ["bias_hh"])
    blobs = dict(net.named_parameters())
    learned = [blobs[key + "_l0" + suffix] for suffix in ["", "_reverse"][:directions]
               for key in order]
    rows = lstm_rows if kind == "LSTM" else lambda blob: blob
    direction = "direction: BIDIRECTIONAL " if bidirectional else ""
    write(name, kind, f"recurrent_param {{ num_output: {hidden} {direction}expose_hidden: true }}",
          [x, *cont, *initial], [rows(blob) for blob in learned], grads, outputs,
          [x.grad] + [None] * len(cont) + [state.grad for state in initial],
          [rows(blob.grad) for blob in learned])


def attention(name, heads, kv_heads, causal, masked):
    """torch.nn.MultiheadAttention with projections that do nothing."""
    generator = torch.Generator().manual_seed(len(name))
    items, queries, keys, size = 2, 3, 4, 2
    width = heads * size
    net = torch.nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
    with torch.no_grad():
        net.in_proj_weight.copy_(torch.cat([torch.eye(width)] * 3))
        net.out_proj.weight.copy_(torch.eye(width))
    q = draw(generator, items, queries, width, scale=2).requires_grad_()
    k = draw(generator, items, keys, kv_heads * size, scale=2).requires_grad_()
    v = draw(generator, items, keys, kv_heads * size, scale=2).requires_grad_()

    def for_all_heads(x):
        x = x.reshape(items, keys, kv_heads, size)
        return x.repeat_interleave(heads // kv_heads, dim=2).reshape(items, keys, width)

    mask = draw(generator, queries, keys, scale=2) if masked else None
    added = mask if masked else torch.zeros(queries, keys)
    if causal:
        later = torch.ones(queries, keys, dtype=torch.bool).triu(1)
        added = added.masked_fill(later, float("-inf"))
    y, _ = net(q, for_all_heads(k), for_all_heads(v), attn_mask=added)
    grad = draw(generator, *y.shape)
    y.backward(grad)
    text = f"attention_param {{ num_heads: {heads} num_kv_heads: {kv_heads}"
    text += f" causal: {str(causal).lower()} }}"
    write(name, "Attention", text, [q, k, v] + ([mask] if masked else []), [], [grad], [y],
          [q.grad, k.grad, v.grad] + ([None] if masked else []), [])


recurrent("gru", "GRU", False)
recurrent("gru_bidirectional", "GRU", True)
recurrent("lstm", "LSTM", False)
recurrent("lstm_bidirectional", "LSTM", True)
attention("attention", 2, 2, False, False)
attention("attention_causal", 2, 2, True, False)
attention("attention_grouped_masked", 4, 2, False, True)
