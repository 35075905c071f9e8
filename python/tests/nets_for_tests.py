"""Nets as programs, for crema.NetSpec and caffe.NetSpec alike."""

XAVIER = dict(weight_filler=dict(type="xavier"), bias_filler=dict(type="constant"))
RATES = [dict(lr_mult=1), dict(lr_mult=2)]


def lenet(n, L):
    """The layers of models/lenet/train_val.prototxt after its data."""
    scale = dict(scale=0.00390625)
    n.data, n.label = L.Data(
        name="mnist",
        ntop=2,
        include=dict(phase="TRAIN"),
        transform_param=scale,
        source="build/data/mnist_train_lmdb",
        batch_size=64,
        backend="LMDB",
    )
    for name, bottom, outputs in (("1", "data", 20), ("2", "pool1", 50)):
        n["conv" + name] = L.Convolution(
            n[bottom], num_output=outputs, kernel_size=5, param=RATES, **XAVIER
        )
        n["pool" + name] = L.Pooling(n["conv" + name], pool="MAX", kernel_size=2, stride=2)
    n.ip1 = L.InnerProduct(n.pool2, num_output=500, param=RATES, **XAVIER)
    n.relu1 = L.ReLU(n.ip1, in_place=True)
    n.ip2 = L.InnerProduct(n.relu1, num_output=10, param=RATES, **XAVIER)
    n.accuracy = L.Accuracy(n.ip2, n.label, include=dict(phase="TEST"))
    n.loss = L.SoftmaxWithLoss(n.ip2, n.label)


def learned(make, bottom, bias=0.2, **fields):
    """A layer with weights as GoogLeNet has them."""
    return make(
        bottom,
        param=[dict(lr_mult=1, decay_mult=1), dict(lr_mult=2, decay_mult=0)],
        weight_filler=dict(type="xavier"),
        bias_filler=dict(type="constant", value=bias),
        **fields,
    )


def conv_relu(n, L, bottom, prefix, name, **fields):
    n[prefix + name] = learned(L.Convolution, bottom, **fields)
    relu = f"{prefix}relu_{name.removesuffix('_s2')}"
    n[relu] = L.ReLU(n[prefix + name], in_place=True)
    return n[relu]


def inception(n, L, bottom, name, one, three, five, pool):
    """A module of GoogLeNet; `three` and `five` have the outputs of the reduction, and of all."""
    at = f"inception_{name}/"
    ends = [conv_relu(n, L, bottom, at, "1x1", num_output=one, kernel_size=1)]
    for size, (less, outputs) in ((3, three), (5, five)):
        kind = f"{size}x{size}"
        x = conv_relu(n, L, bottom, at, kind + "_reduce", num_output=less, kernel_size=1)
        fields = dict(num_output=outputs, kernel_size=size, pad=size // 2)
        ends.append(conv_relu(n, L, x, at, kind, **fields))
    n[at + "pool"] = L.Pooling(bottom, pool="MAX", kernel_size=3, stride=1, pad=1)
    ends.append(conv_relu(n, L, n[at + "pool"], at, "pool_proj", num_output=pool, kernel_size=1))
    n[at + "output"] = L.Concat(*ends)
    return n[at + "output"]


def classifier(n, L, bottom, at):
    """One of the two classifiers in the middle of GoogLeNet."""
    n[at + "ave_pool"] = L.Pooling(bottom, pool="AVE", kernel_size=5, stride=3)
    x = conv_relu(n, L, n[at + "ave_pool"], at, "conv", num_output=128, kernel_size=1)
    n[at + "fc"] = learned(L.InnerProduct, x, num_output=1024)
    n[at + "relu_fc"] = L.ReLU(n[at + "fc"], in_place=True)
    n[at + "drop_fc"] = L.Dropout(n[at + "relu_fc"], dropout_ratio=0.7, in_place=True)
    n[at + "classifier"] = learned(L.InnerProduct, n[at + "drop_fc"], bias=0, num_output=1000)
    loss = L.SoftmaxWithLoss(n[at + "classifier"], n.label, name=at + "loss", loss_weight=0.3)
    n[at + at[:-1]] = loss


def googlenet(n, L):
    """The layers of models/googlenet/train_val.prototxt after its data."""
    n.data, n.label = L.Data(
        ntop=2,
        include=dict(phase="TRAIN"),
        transform_param=dict(mirror=True, crop_size=224, mean_value=[104, 117, 123]),
        source="data/ilsvrc12/ilsvrc12_train_lmdb",
        batch_size=32,
        backend="LMDB",
    )
    norm = dict(local_size=5, alpha=0.0001, beta=0.75)
    pool = dict(pool="MAX", kernel_size=3, stride=2)
    x = conv_relu(n, L, n.data, "conv1/", "7x7_s2", num_output=64, kernel_size=7, pad=3, stride=2)
    n["pool1/3x3_s2"] = L.Pooling(x, **pool)
    x = n["pool1/norm1"] = L.LRN(n["pool1/3x3_s2"], **norm)
    x = conv_relu(n, L, x, "conv2/", "3x3_reduce", num_output=64, kernel_size=1)
    x = conv_relu(n, L, x, "conv2/", "3x3", num_output=192, kernel_size=3, pad=1)
    n["conv2/norm2"] = L.LRN(x, **norm)
    x = n["pool2/3x3_s2"] = L.Pooling(n["conv2/norm2"], **pool)
    x = inception(n, L, x, "3a", 64, (96, 128), (16, 32), 32)
    x = inception(n, L, x, "3b", 128, (128, 192), (32, 96), 64)
    x = n["pool3/3x3_s2"] = L.Pooling(x, **pool)
    x = inception(n, L, x, "4a", 192, (96, 208), (16, 48), 64)
    classifier(n, L, x, "loss1/")
    x = inception(n, L, x, "4b", 160, (112, 224), (24, 64), 64)
    x = inception(n, L, x, "4c", 128, (128, 256), (24, 64), 64)
    x = inception(n, L, x, "4d", 112, (144, 288), (32, 64), 64)
    classifier(n, L, x, "loss2/")
    x = inception(n, L, x, "4e", 256, (160, 320), (32, 128), 128)
    x = n["pool4/3x3_s2"] = L.Pooling(x, **pool)
    x = inception(n, L, x, "5a", 256, (160, 320), (32, 128), 128)
    x = inception(n, L, x, "5b", 384, (192, 384), (48, 128), 128)
    n["pool5/7x7_s1"] = L.Pooling(x, pool="AVE", kernel_size=7, stride=1)
    x = n["pool5/drop_7x7_s1"] = L.Dropout(n["pool5/7x7_s1"], dropout_ratio=0.4, in_place=True)
    x = n["loss3/classifier"] = learned(L.InnerProduct, x, bias=0, num_output=1000)
    n["loss3/loss3"] = L.SoftmaxWithLoss(x, n.label, loss_weight=1)
    n["loss3/top-1"] = L.Accuracy(x, n.label, include=dict(phase="TEST"))
    n["loss3/top-5"] = L.Accuracy(x, n.label, include=dict(phase="TEST"), top_k=5)
