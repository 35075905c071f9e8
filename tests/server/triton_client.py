#!/usr/bin/env python3
"""An unmodified Triton client asks a running server over HTTP and gRPC.

usage: triton_client.py HTTP_PORT GRPC_PORT MODEL
Exits 77 where tritonclient is not installed. The model has one input.
"""
import sys

import numpy as np

try:
    import tritonclient.grpc as grpc_client
    import tritonclient.http as http_client
    from tritonclient.utils import InferenceServerException
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def fixed(shape, batch):
    return [batch if n == -1 else n for n in shape]


def check_common(client, model, as_json):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
    extra = {"as_json": True} if as_json else {}
    server = client.get_server_metadata(**extra)
    assert server["name"] == "crema", server
    metadata = client.get_model_metadata(model, **extra)
    assert metadata["name"] == model, metadata
    config = client.get_model_config(model, **extra)
    assert config.get("config", config)["name"] == model, config
    index = client.get_model_repository_index(**extra)
    rows = index["models"] if as_json else index
    assert any(row["name"] == model and row["state"] == "READY" for row in rows), index
    return metadata


DATATYPES = {"float64": "FP64", "float32": "FP32", "float16": "FP16", "uint8": "UINT8",
             "int32": "INT32", "int64": "INT64", "object": "BYTES"}


def infer(module, client, model, metadata, values, **how):
    spec = metadata["inputs"][0]
    tensor = module.InferInput(spec["name"], list(values.shape), DATATYPES[str(values.dtype)])
    tensor.set_data_from_numpy(values, **how.get("input", {}))
    outputs = None
    if "output" in how:
        outputs = [module.InferRequestedOutput(o["name"], **how["output"])
                   for o in metadata["outputs"]]
    result = client.infer(model, [tensor], outputs=outputs, request_id="seven")
    response = result.get_response()
    identifier = response["id"] if isinstance(response, dict) else response.id
    assert identifier == "seven", response
    return [result.as_numpy(o["name"]) for o in metadata["outputs"]]


def check_datatypes(http, grpc, model, metadata, shape):
    values = np.random.default_rng(2).integers(0, 255, shape)
    expected = infer(http_client, http, model, metadata, values.astype(np.float32))
    ways = [(http_client, http), (grpc_client, grpc)]
    for dtype in (np.uint8, np.int32, np.int64, np.float16, np.float64):
        for module, client in ways:
            answer = infer(module, client, model, metadata, values.astype(dtype))
            assert np.array_equal(answer[0], expected[0]), dtype
    # The model has no mean and scale, and takes BGR.
    images = np.array([b"P6\n%d %d\n255\n" % (shape[3], shape[2]) +
                       sample[::-1].transpose(1, 2, 0).astype(np.uint8).tobytes()
                       for sample in values], dtype=object)
    for module, client in ways:
        answer = infer(module, client, model, metadata, images)
        assert np.array_equal(answer[0], expected[0])


def refused(call):
    try:
        call()
    except InferenceServerException as error:
        return str(error)
    raise AssertionError("was not refused")


def main():
    http_port, grpc_port, model = sys.argv[1:4]
    http = http_client.InferenceServerClient(f"127.0.0.1:{http_port}", concurrency=4)
    grpc = grpc_client.InferenceServerClient(f"127.0.0.1:{grpc_port}")
    metadata = check_common(http, model, as_json=False)
    over_grpc = check_common(grpc, model, as_json=True)
    assert [t["name"] for t in metadata["outputs"]] == [t["name"] for t in over_grpc["outputs"]]

    shape = fixed(metadata["inputs"][0]["shape"], 3)
    values = np.random.default_rng(1).random(shape, dtype=np.float32)
    binary = infer(http_client, http, model, metadata, values)
    as_json = infer(http_client, http, model, metadata, values,
                    input={"binary_data": False}, output={"binary_data": False})
    raw = infer(grpc_client, grpc, model, metadata, values)
    for a, b, c in zip(binary, as_json, raw):
        assert a.dtype == np.float32 and a.shape == b.shape == c.shape
        assert np.array_equal(a, b) and np.array_equal(a, c)

    check_datatypes(http, grpc, model, metadata, shape)

    best = infer(http_client, http, model, metadata, values, output={"class_count": 2})
    best_grpc = infer(grpc_client, grpc, model, metadata, values, output={"class_count": 2})
    assert np.array_equal(best[0], best_grpc[0]) and best[0].shape[0] == 3, best

    spec = metadata["inputs"][0]
    requests = []
    for _ in range(16):
        tensor = http_client.InferInput(spec["name"], list(values.shape), "FP32")
        tensor.set_data_from_numpy(values)
        requests.append(http.async_infer(model, [tensor]))
    for request in requests:
        answer = request.get_result().as_numpy(metadata["outputs"][0]["name"])
        assert np.allclose(answer, binary[0], rtol=1e-5, atol=1e-6)

    for module, client in ((http_client, http), (grpc_client, grpc)):
        wrong = module.InferInput("nothing", list(values.shape), "FP32")
        wrong.set_data_from_numpy(values)
        assert "nothing" in refused(lambda: client.infer(model, [wrong]))
    assert "no model" in refused(lambda: http.get_model_metadata("nobody"))
    assert "no model" in refused(lambda: grpc.get_model_metadata("nobody"))
    assert not http.is_model_ready("nobody") and not grpc.is_model_ready("nobody")
    assert "LogSettings" in refused(grpc.get_log_settings)
    good = grpc_client.InferInput(spec["name"], list(values.shape), "FP32")
    good.set_data_from_numpy(values)
    assert "disabled" in refused(
        lambda: grpc.infer(model, [good], compression_algorithm="gzip"))

    statistics = http.get_inference_statistics(model)["model_stats"][0]
    assert int(statistics["inference_stats"]["success"]["count"]) >= 20, statistics
    over_grpc = grpc.get_inference_statistics(model, as_json=True)["model_stats"][0]
    assert int(over_grpc["inference_count"]) >= 60, over_grpc
    refused(lambda: http.load_model(model))
    refused(lambda: grpc.unload_model(model))
    print("the clients are served")


main()
