"""Writes the body of an inference request with one input of zeros to 0.999, in the binary-tensor
extension, and a wrk script that posts it. Usage: body.py PORT FOLDER (asks the server for the input)"""
import http.client
import json
import pathlib
import struct
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("GET", "/v2/models/m")
meta = json.loads(connection.getresponse().read())["inputs"][0]
shape = [1] + meta["shape"][1:]
count = 1
for extent in shape:
    count *= extent
header = json.dumps({
    "inputs": [{"name": meta["name"], "shape": shape, "datatype": "FP32",
                "parameters": {"binary_data_size": 4 * count}}],
    "parameters": {"binary_data_output": True}}).encode()
folder = pathlib.Path(sys.argv[2])
values = struct.pack(f"<{count}f", *((i % 1000) / 1000 for i in range(count)))
(folder / "body").write_bytes(header + values)
(folder / "post.lua").write_text(
    f'local f = io.open("{folder}/body", "rb")\nwrk.method = "POST"\nwrk.body = f:read("*a")\n'
    f'f:close()\nwrk.headers["Inference-Header-Content-Length"] = "{len(header)}"\n')
