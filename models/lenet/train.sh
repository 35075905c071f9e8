#!/bin/sh
# Downloads MNIST to data/, trains LeNet as Caffe publishes it, and measures. Run it by `crema zoo train lenet`, in
# a folder for data/ and runs/; about a minute on two cores.
set -eu
models=${MODELS:-models}
[ -e build/data/mnist_train_lmdb ] || {
  sh "$models/../data/mnist/get.sh" build/data
  crema convert_mnist build/data/train-images-idx3-ubyte.gz build/data/train-labels-idx1-ubyte.gz build/data/mnist_train_lmdb
  crema convert_mnist build/data/t10k-images-idx3-ubyte.gz build/data/t10k-labels-idx1-ubyte.gz build/data/mnist_test_lmdb
}
crema train "$models/lenet/solver.prototxt" --set net="$models/lenet/train_val.prototxt" --set random_seed=1 --threads=1
cp runs/lenet/lenet_iter_10000.caffemodel runs/lenet/lenet.caffemodel
crema evaluate --model="$models/lenet/train_val.prototxt" --weights=runs/lenet/lenet.caffemodel
set -- --model="$models/lenet/deploy.prototxt" --weights=runs/lenet/lenet.caffemodel --scale=0.00390625 \
  --labels="$models/lenet/labels.txt"
crema deploy export "$@" -o runs/lenet/lenet.crema
crema deploy export "$@" --preprocessing -o runs/lenet/lenet.onnx
