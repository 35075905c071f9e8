#!/usr/bin/env bash
# Installs the wheels of build/wheels/ in an empty Debian 12 that has python3 and pip alone, and
# there draws digits, trains LeNet on them, classifies a picture, exports the model to ONNX, imports
# that and serves the model.
# Usage: scripts/wheel_bare.sh ROOT    (as root; makes the folder ROOT by debootstrap, or uses it)
set -euo pipefail
cd "$(dirname "$0")/.."

root=$1
if [ ! -d "$root/usr" ]; then
  debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates \
    bookworm "$root"
fi
rm -rf "$root/work"
mkdir -p "$root/work/models"
cp build/wheels/*.whl "$root/work"
cp -r models/lenet_digits "$root/work/models"
cat >"$root/work/run.sh" <<'IN_ROOT'
set -eu
cd /work
ldconfig -p | grep -E 'opencv|protobuf|dnnl|hdf5' && exit 1 # nothing of Crema's may come from here
python3 -m venv env
env/bin/pip install -q numpy protobuf pillow
env/bin/pip install -q --no-index --find-links . crema crema-caffe
export PATH=/work/env/bin:$PATH
mkdir -p build/demo
crema make_digits --count=5000 --seed=1 build/demo/digits_train_lmdb
crema make_digits --count=1000 --seed=2 build/demo/digits_test_lmdb
crema train --solver=models/lenet_digits/solver.prototxt 2>&1 | tail -n 2
weights=$(ls -t build/demo/*.caffemodel | head -n 1)
shown=$(python3 -c "import crema, numpy, PIL.Image
net = crema.Net.open('models/lenet_digits/train_val.prototxt', phase=1)
net.forward(0, 0)
data, label = (net.blob_list()[net.blob_names.index(name)].data for name in ('data', 'label'))
PIL.Image.fromarray(numpy.uint8(data[0, 0] * 256)).save('digit.jpg', quality=95)
print(int(label[0]))")
echo "digit.jpg shows a $shown"
net="--model=models/lenet_digits/deploy.prototxt --weights=$weights --scale=0.00390625"
crema deploy classify $net --top=1 digit.jpg
crema deploy export $net --check=none -o digits.onnx
crema import digits.onnx -o imported
crema deploy classify --model=imported/deploy.prototxt --weights=imported/weights.caffemodel \
  --scale=0.00390625 --top=1 digit.jpg
mkdir -p repository/digits/1
crema deploy export $net --output=repository/digits/1/model.crema
python3 - "$shown" <<'PYTHON'
import json, sys, subprocess, time, urllib.request, numpy, crema, caffe
model = crema.Model.from_file("repository/digits/1/model.crema")
prediction = model.classify(open("digit.jpg", "rb").read(), most=1)[0]
print("python:", prediction)
assert prediction.class_id == int(sys.argv[1])
imported = crema.Model.from_onnx("digits.onnx", scale=0.00390625)
assert abs(imported.classify("digit.jpg", most=1)[0].score - prediction.score) < 1e-5
server = subprocess.Popen(["crema", "serve", "--repository=repository", "--port=8600"])
try:
    body = json.dumps({"inputs": [{"name": "data", "shape": [1, 1, 28, 28], "datatype": "FP32",
                                   "data": [0.5] * 784}]}).encode()
    for _ in range(100):
        try:
            answer = urllib.request.urlopen("http://127.0.0.1:8600/v2/models/digits/infer", body)
            break
        except OSError:
            time.sleep(0.1)
    served = json.load(answer)["outputs"][0]["data"]
finally:
    server.terminate()
    print("serve ends with", server.wait(10))
own = model.run(numpy.full((1, 1, 28, 28), 0.5, numpy.float32))["prob"].ravel()
assert numpy.allclose(served, own, atol=1e-6), (served, own)
print("served as computed here")
PYTHON
IN_ROOT
unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh /work/run.sh' "$root"
