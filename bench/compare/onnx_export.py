"""The net of a case as an ONNX file, once a case, for all that read ONNX."""
import torch

import torch_net


def export(case):
    """Writes and returns net.onnx. Outputs are named by their place, unless the net is ONNX."""
    if case.onnx:
        return case.onnx
    path = case.shared("net.onnx")
    if not path.exists():
        net = torch_net.make(case)
        torch.onnx.export(net, tuple(torch_net.input_tensors(case)), path, dynamo=True,
                          input_names=[f"input{i}" for i in range(len(net.inputs))],
                          output_names=[f"output{i}" for i in range(len(net.outputs))],
                          external_data=False, verbose=False)
    return path
