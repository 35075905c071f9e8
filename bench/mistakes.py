#!/usr/bin/env python3
"""What Crema says about 100 mistakes that users make.

    python3 bench/mistakes.py --bin=build/bin                      # all cases, a Markdown table on stdout
    python3 bench/mistakes.py --bin=build/bin --only=n03,f1        # cases whose id begins with one of these
    python3 bench/mistakes.py --bin=build/bin --only=n03 --show    # with the whole answer

Makes digits, a net, a solver, weights and a model in a temporary folder, and runs each case in a copy of it: its edits of the
good files, then its command. The exit code is 1 if an answer lacks the text that it must have (`says`), if an exit code is
another one, or if a command does not end. The judgements are those of a reader: "good", or "could be better" or "bad" with
the reason. They do not follow from the run: look at them again when an answer changes.

A case: id (n: net, s: solver, f: flags and data), the mistake, the command, `says`, the exit code, the judgement, the edits
(file, old text, new text; None as old text appends), and `prepare`, a function
that gets the workshop and the folder of the case. The text that an answer must have is empty where Crema says nothing useful.
"""

import argparse
import collections
import os
import pathlib
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

NET = '''name: "Digits"
layer {
  name: "digits"
  type: "Data"
  top: "data"
  top: "label"
  include { phase: TRAIN }
  transform_param { scale: 0.00390625 }
  data_param { source: "train_lmdb" batch_size: 20 backend: LMDB }
}
layer {
  name: "digits"
  type: "Data"
  top: "data"
  top: "label"
  include { phase: TEST }
  transform_param { scale: 0.00390625 }
  data_param { source: "test_lmdb" batch_size: 50 backend: LMDB }
}
layer {
  name: "conv1"
  type: "Convolution"
  bottom: "data"
  top: "conv1"
  convolution_param {
    num_output: 8
    kernel_size: 5
    weight_filler { type: "xavier" }
  }
}
layer {
  name: "pool1"
  type: "Pooling"
  bottom: "conv1"
  top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 }
}
layer {
  name: "ip1"
  type: "InnerProduct"
  bottom: "pool1"
  top: "ip1"
  inner_product_param {
    num_output: 32
    weight_filler { type: "xavier" }
  }
}
layer {
  name: "relu1"
  type: "ReLU"
  bottom: "ip1"
  top: "ip1"
}
layer {
  name: "ip2"
  type: "InnerProduct"
  bottom: "ip1"
  top: "ip2"
  inner_product_param {
    num_output: 10
    weight_filler { type: "xavier" }
  }
}
layer {
  name: "accuracy"
  type: "Accuracy"
  bottom: "ip2"
  bottom: "label"
  top: "accuracy"
  include { phase: TEST }
}
layer {
  name: "loss"
  type: "SoftmaxWithLoss"
  bottom: "ip2"
  bottom: "label"
  top: "loss"
}
'''

SOLVER = '''net: "net.prototxt"
test_iter: 2
test_interval: 10
base_lr: 0.01
lr_policy: "fixed"
momentum: 0.9
weight_decay: 0.0005
display: 5
max_iter: 10
snapshot_prefix: "snap"
random_seed: 1
solver_mode: CPU
'''

# The net for single images: an input in place of the data layers, a Softmax in place of accuracy and loss.
DEPLOY = ('name: "Digits"\nlayer {\n  name: "data"\n  type: "Input"\n  top: "data"\n'
          '  input_param { shape { dim: 1 dim: 1 dim: 28 dim: 28 } }\n}\n'
          + NET[NET.index('layer {\n  name: "conv1"'):NET.index('layer {\n  name: "accuracy"')]
          + 'layer {\n  name: "prob"\n  type: "Softmax"\n  bottom: "ip2"\n  top: "prob"\n}\n')

TRAIN_DATA = 'data_param { source: "train_lmdb" batch_size: 20 backend: LMDB }'
TEST_DATA = 'data_param { source: "test_lmdb" batch_size: 50 backend: LMDB }'
TEST_LAYER = NET[NET.index('layer {', 200):NET.index('layer {\n  name: "conv1"')]
THREADED = {'check', 'train', 'evaluate', 'convert_imageset', 'new', 'serve', 'check_data'}
TIMEOUT = 60  # seconds; a command that should refuse its work but runs on is ended and counts as a failure

Case = collections.namedtuple('Case', 'id mistake command says code judgement edits prepare')
CASES = []
GOOD = 'good'


def case(id, mistake, command, says, code, judgement, *edits, prepare=None):
    CASES.append(Case(id, mistake, command, says, code, judgement, edits, prepare))


def net(id, mistake, says, code, judgement, *edits, command='check solver.prototxt', prepare=None):
    """A mistake in the net; an edit is (old, new)."""
    case(id, mistake, command, says, code, judgement, *[('net.prototxt', *edit) for edit in edits], prepare=prepare)


def solver(id, mistake, says, code, judgement, *edits, command='check solver.prototxt', prepare=None):
    """A mistake in the solver; an edit is (old, new)."""
    case(id, mistake, command, says, code, judgement, *[('solver.prototxt', *edit) for edit in edits], prepare=prepare)


def before(name, text):
    """An edit that inserts text before the layer `name`."""
    head = 'layer {\n  name: "%s"' % name
    return head, text + head


# ---- preparing ----


def replace(path, old, new):
    """Replaces the first `old` in a text file; None appends."""
    content = path.read_text(encoding='utf-8')
    if old is not None and old not in content:
        sys.exit('%s has no %r' % (path.name, old))
    path.write_text(content + new if old is None else content.replace(old, new, 1), encoding='utf-8')


def digit(folder):
    """A picture of a digit, as a path below folders/."""
    return str(min((folder / 'folders').glob('*/*.png')).relative_to(folder / 'folders'))


def write_png(path, width, height):
    """A gray picture."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\0' + bytes((x * y) % 256 for x in range(width)) for y in range(height))
    path.write_bytes(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0))
                     + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def list_of_digits(workshop, folder):
    pictures = sorted((folder / 'folders').glob('*/*.png'))
    (folder / 'list.txt').write_text(''.join('%s/%s %s\n' % (p.parent.name, p.name, p.parent.name) for p in pictures))


def move_to_job(workshop, folder):
    (folder / 'job').mkdir()
    for name in 'net.prototxt', 'solver.prototxt':
        (folder / name).rename(folder / 'job' / name)


def two_sizes(workshop, folder):
    write_png(folder / 'folders' / 'large.png', 40, 30)
    (folder / 'list.txt').write_text('%s 0\nlarge.png 1\n' % digit(folder))


def labels_from_1(workshop, folder):
    shutil.rmtree(folder / 'train_lmdb')
    pictures = sorted((folder / 'folders').glob('*/*.png'))
    (folder / 'list.txt').write_text(''.join('%s/%s %d\n' % (p.parent.name, p.name, int(p.parent.name) + 1) for p in pictures))
    workshop.run('convert_imageset --gray folders list.txt train_lmdb', folder)


def write_pth(workshop, folder):
    with zipfile.ZipFile(folder / 'net.pth', 'w') as archive:  # what torch.save writes, for an empty state dict
        archive.writestr('net/data.pkl', b'\x80\x02}q\x00.')
        archive.writestr('net/version', b'3\n')


# ---- nets ----

net('n01', 'a layer lacks its closing brace',
    'net.prototxt:37:1: layer "pool1": \'layer\' is not closed', 2, GOOD,
    ('  top: "pool1"\n  pooling_param { pool: MAX kernel_size: 2 stride: 2 }\n}\n',
     '  top: "pool1"\n  pooling_param { pool: MAX kernel_size: 2 stride: 2 }\n'))
net('n02', 'a comment in the style of C',
    'write # instead of //', 2, GOOD,
    ('name: "Digits"\n', '// my first net\nname: "Digits"\n'))
net('n03', 'typographic quotes from a web page, in one layer',
    '32:9: typographic quote', 2,
    'could be better: eight messages for four names; one a line, with the line as it should be',
    ('  name: "pool1"\n  type: "Pooling"\n  bottom: "conv1"\n  top: "pool1"',
     '  name: “pool1”\n  type: “Pooling”\n  bottom: “conv1”\n  top: “pool1”'))
net('n04', 'a name without quotes',
    'write "pool1"', 2, GOOD,
    ('bottom: "pool1"', 'bottom: pool1'))
net('n05', 'an enum in quotes',
    'write MAX, without quotes', 2, GOOD,
    ('pool: MAX', 'pool: "MAX"'))
net('n06', 'a decimal comma',
    'decimals take a point, not a comma: write 0.00390625', 2,
    GOOD, ('scale: 0.00390625', 'scale: 0,00390625'))
net('n07', 'num_output directly in the layer',
    'net.prototxt:43:3: layer "ip1": unknown field \'num_output\'', 2,
    'could be better: does not say that it belongs in inner_product_param { }, as --set does (f12)',
    ('  inner_product_param {\n    num_output: 32\n    weight_filler { type: "xavier" }\n  }\n',
     '  num_output: 32\n'))
net('n08', 'convolution_param in an InnerProduct',
    "'convolution_param' has no effect on a layer of type InnerProduct", 2,
    'could be better: a warning and an error for one cause; fused_relu_param is noise; should say: write '
    'inner_product_param',
    ('  inner_product_param {\n    num_output: 32', '  convolution_param {\n    num_output: 32'))
net('n09', 'num_output given twice',
    "'num_output' is given twice, first at 26:5; keep one", 2, GOOD,
    ('num_output: 8\n', 'num_output: 8\n    num_output: 16\n'))
net('n10', 'HDF5Data with the .h5 file in place of a list',
    'is an HDF5 file: source names a text file', 2,
    GOOD,
    *[('type: "Data"', 'type: "HDF5Data"')] * 2,
    *[('  transform_param { scale: 0.00390625 }\n  ' + old, '  hdf5_data_param { source: "%s/000000.h5" batch_size: 20 }' % h5)
      for old, h5 in ((TRAIN_DATA, 'train_h5'), (TEST_DATA, 'test_h5'))],
    prepare=lambda w, f: [w.run('convert_db --backend=hdf5 %s_lmdb %s_h5' % (name, name), f) for name in ('train', 'test')])
net('n11', 'type "Conv2D" (a name of Keras)',
    "unknown layer type 'Conv2D'; write Convolution", 2, GOOD,
    ('type: "Convolution"', 'type: "Conv2D"'))
net('n12', 'Convolution after InnerProduct',
    '', 0,
    'could be better: silent: kernel_size has no effect on a blob without spatial axes; a warning',
    before('ip2',
           'layer { name: "conv2" type: "Convolution" bottom: "ip1" top: "conv2" convolution_param { num_output: '
           '8 kernel_size: 3 weight_filler { type: "xavier" } } }\n'),
    ('  bottom: "ip1"\n  top: "ip2"', '  bottom: "conv2"\n  top: "ip2"'))
net('n13', 'pool: AVERAGE',
    "did you mean 'AVE'?", 2, GOOD,
    ('pool: MAX', 'pool: AVERAGE'))
net('n14', 'both data layers have phase TRAIN',
    'both are for phase TRAIN: write include { phase: TEST } in one of them', 2,
    'could be better: five messages for one cause',
    ('phase: TEST', 'phase: TRAIN'))
net('n15', 'filler "normal"',
    "unknown filler type 'normal' (did you mean 'gaussian'?)", 2, GOOD,
    ('type: "xavier"', 'type: "normal"'))
net('n16', 'the old keyword layers for one new layer',
    "write 'layer'", 2, GOOD,
    ('layer {\n  name: "relu1"', 'layers {\n  name: "relu1"'))
net('n17', 'a layer reads the blob of a later layer',
    'layer "ip2" further down does, but layers run in the order in which they are written', 2, GOOD,
    ('bottom: "pool1"\n  top: "ip1"', 'bottom: "ip2"\n  top: "ip1"'))
net('n18', 'Convolution without kernel_size',
    'kernel_size is missing; give one value', 2, GOOD,
    ('    kernel_size: 5\n', ''))
net('n19', 'kernel larger than the image',
    'use a smaller kernel, more padding or a larger input', 2, GOOD,
    ('kernel_size: 5', 'kernel_size: 50'))
net('n20', 'batch larger than the data set',
    'a batch takes each of the 200 samples 25 times: use a smaller batch_size', 0,
    'could be better: names neither layer nor line', ('batch_size: 20', 'batch_size: 5000'))
net('n21', 'root_folder of ImageData without the last slash',
    "write 'folders/'", 2, GOOD,
    ('type: "Data"', 'type: "ImageData"'),
    (TRAIN_DATA, 'image_data_param { source: "list.txt" root_folder: "folders" batch_size: 2 is_color: false }'),
    prepare=list_of_digits)
net('n22', 'label and scores in the wrong order at the loss',
    'SoftmaxWithLoss takes scores, then labels: are its bottoms swapped?', 2, GOOD,
    ('  bottom: "ip2"\n  bottom: "label"\n  top: "loss"', '  bottom: "label"\n  bottom: "ip2"\n  top: "loss"'))
net('n23', 'the loss without the label',
    'layer "loss": wrong number of bottoms: SoftmaxWithLoss takes 2, not 1', 2,
    'could be better: does not say which: scores, then labels (n22 knows)',
    ('  bottom: "ip2"\n  bottom: "label"\n  top: "loss"', '  bottom: "ip2"\n  top: "loss"'))
net('n24', 'nine outputs for ten classes',
    '"ip2" has 9 outputs (labels 0..8', 3,
    'could be better: seven messages for one cause, without file and line; should say num_output: 10, as the '
    'largest label is 9',
    ('num_output: 10', 'num_output: 9'))
net('n25', 'EuclideanLoss on class numbers',
    '75:3: layer "loss": the inputs need the same batch size', 2,
    'could be better: does not say that class numbers need SoftmaxWithLoss', ('SoftmaxWithLoss', 'EuclideanLoss'))
net('n26', 'ReLU on the scores before the loss',
    '', 0,
    'could be better: silent: scores cannot fall below 0, and their gradient is 0 there; a warning',
    before('accuracy', 'layer { name: "relu2" type: "ReLU" bottom: "ip2" top: "ip2" }\n'))
net('n27', 'ip2 reads past ip1, which nothing uses',
    '52:3: layer "relu1": top \'ip1\' (50x32) is read by no layer', 0,
    'could be better: speaks of logging; should say that the weights of ip1 do not reach the loss and never learn',
    ('  bottom: "ip1"\n  top: "ip2"', '  bottom: "pool1"\n  top: "ip2"'))
net('n28', 'a copied layer keeps the top of its model',
    'blob \'conv1\' is already produced by layer "conv1" (line 20); give this top another name', 2, GOOD,
    before('pool1',
           'layer { name: "conv2" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: '
           '8 kernel_size: 3 } }\n'))
net('n29', 'two layers of one name, copied',
    'another layer with parameter blobs has this name (line 38)', 2, GOOD,
    ('name: "ip2"', 'name: "ip1"'))
net('n30', 'no weight_filler anywhere',
    'conv1, ip1, ip2; give each a weight_filler', 0, GOOD,
    *[('    weight_filler { type: "xavier" }\n', '')] * 3)
net('n31', 'gaussian fillers with std 1',
    '', 0,
    'could be better: silent about a first loss of 80 for ten classes, where chance gives ln 10 = 2.3; a warning',
    *[('weight_filler { type: "xavier" }', 'weight_filler { type: "gaussian" std: 1 }')] * 3)
net('n32', 'scale: 256 in place of 1/256',
    'scale is 256: bytes reach 65280; scale: 0.00390625 makes them 0 to 1', 0, GOOD,
    *[('scale: 0.00390625', 'scale: 256')] * 2)
net('n33', 'three mean values for gray images',
    'there are 3 entries of mean_value, but the image has 1 channels: give one', 2, GOOD,
    *[('  transform_param { scale:', '  transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale:')] * 2)
net('n34', 'crop_size larger than the images',
    'crop_size is 224, but the image is 28 high and 28 wide', 2, GOOD,
    ('scale: 0.00390625', 'crop_size: 224 scale: 0.00390625'))
net('n35', 'batch_size missing',
    'data_param.batch_size must be 1 or more', 2, GOOD,
    (' batch_size: 20', ''))
net('n36', 'dropout_ratio in percent',
    '50 % is 0.5', 2, GOOD,
    before('ip2',
           'layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 50 } }\n'))
net('n37', 'Eltwise of blobs of different shapes',
    '\'ip1\' is 20x32 (from layer "relu1", line 48), \'pool1\' is 20x8x12x12', 2, GOOD,
    before('ip2', 'layer { name: "sum" type: "Eltwise" bottom: "ip1" bottom: "pool1" top: "sum" }\n'))
net('n38', 'Reshape to a wrong number of values',
    'the new shape 20x1000 has 20000 elements, but the input of shape 20x8x12x12 has 23040', 2, GOOD,
    before('ip1',
           'layer { name: "flat" type: "Reshape" bottom: "pool1" top: "flat" reshape_param { shape { dim: 0 dim: '
           '1000 } } }\n'))
net('n39', 'top_k of Accuracy larger than the number of classes',
    'top_k is 20, but there are only 10 classes', 2, GOOD,
    ('  top: "accuracy"', '  top: "accuracy"\n  accuracy_param { top_k: 20 }'))
net('n40', 'a shared parameter of two shapes',
    'shares \'w\' with layer "ip1", but is 10x32 and not 32x1152', 2, GOOD,
    ('  top: "ip1"\n  inner_product_param', '  top: "ip1"\n  param { name: "w" }\n  inner_product_param'),
    ('  top: "ip2"\n  inner_product_param', '  top: "ip2"\n  param { name: "w" }\n  inner_product_param'))

# ---- solvers ----

solver('s01', 'started in another folder than that of the paths',
    'paths start in the folder where the command runs: write "job/net.prototxt"', 2, GOOD,
    command='check job/solver.prototxt', prepare=move_to_job)
solver('s02', 'lr_policy missing',
    "missing required field 'lr_policy'; one of: fixed step", 2, GOOD,
    ('lr_policy: "fixed"\n', ''))
solver('s03', 'policy step without stepsize',
    "lr_policy 'step' needs the field 'stepsize'; for example stepsize: 10000", 2, GOOD,
    ('"fixed"', '"step" gamma: 0.1'))
solver('s04', 'stepvalue with policy step',
    "stepvalue belongs to 'multistep'", 2,
    GOOD,
    ('"fixed"', '"step" gamma: 0.1 stepvalue: 5'))
solver('s05', 'stepvalues that fall',
    '5:35: the stepvalues are not in ascending order', 2, GOOD,
    ('"fixed"', '"multistep" gamma: 0.1 stepvalue: 8 stepvalue: 4'))
solver('s06', 'gamma: 10 for steps: the rate grows',
    'gamma 10 raises the rate', 0,
    GOOD,
    ('"fixed"', '"step" gamma: 10 stepsize: 2'))
solver('s07', 'exp with gamma 0.1: no rate is left after some iterations',
    'nothing is left of it after 100', 0,
    GOOD,
    ('"fixed"', '"exp" gamma: 0.1'), ('max_iter: 10\n', 'max_iter: 1000\n'))
solver('s08', 'negative base_lr',
    'base_lr -0.01 is negative; use 0 or more', 2, GOOD,
    ('base_lr: 0.01', 'base_lr: -0.01'))
solver('s09', 'momentum: 9 in place of 0.9',
    'momentum is 9: steps add up without end; use less than 1', 0, GOOD,
    ('momentum: 0.9', 'momentum: 9'))
solver('s10', 'weight_decay: 5 in place of 5e-4',
    'weight_decay 5 is very large: 0.0005 is usual', 0, GOOD,
    ('weight_decay: 0.0005', 'weight_decay: 5'))
solver('s11', 'max_iter: 1e4 for a whole number',
    'got 1e4; write 10000', 2, GOOD,
    ('max_iter: 10\n', 'max_iter: 1e4\n'))
solver('s12', 'warmup_iter longer than the run',
    'warmup_iter 1000 is more than max_iter 10: the rate never reaches base_lr', 0, GOOD,
    ('max_iter: 10\n', 'max_iter: 10\nwarmup_iter: 1000\n'))
solver('s13', 'tests without a data layer for them',
    'layer "digits" would, but its rules leave it out of phase TEST', 2,
    'could be better: three messages for one cause; should say: tests need a data layer with include { phase: '
    'TEST }, or no test_iter',
    prepare=lambda w, f: replace(f / 'net.prototxt', TEST_LAYER, ''))
solver('s14', 'two test_iter for one test net',
    'one test_iter is enough', 0, GOOD,
    ('test_iter: 2\n', 'test_iter: 2\ntest_iter: 5\n'))
solver('s15', 'test_iter: 1000 for two batches of test data',
    '', 0,
    'could be better: silent: each test reads the test set 500 times; should say: test_iter: 2 is one pass',
    ('test_iter: 2', 'test_iter: 1000'))
solver('s16', 'test_interval beyond max_iter with snapshot_best',
    'lower test_interval', 0, GOOD,
    ('test_interval: 10', 'test_interval: 5000 test_initialization: false snapshot_best { metric: "accuracy" }'))
solver('s17', 'snapshot_prefix is a folder that exists',
    'at folder/solver', 0, GOOD,
    ('"snap"', '"folder"'), prepare=lambda w, f: (f / 'folder').mkdir())
solver('s18', 'snapshot_prefix below a file',
    'snapshot_prefix "net.prototxt/snap"', 3,
    'could be better: no file and line; the .tempfile is noise', ('"snap"', '"net.prototxt/snap"'))
solver('s19', 'solver_mode: GPU without a GPU',
    '', 0,
    'could be better: check is silent, although train warns that it computes on the CPU; --strict cannot see it',
    ('solver_mode: CPU', 'solver_mode: GPU'))
solver('s20', 'type "adam" in small letters',
    "did you mean 'Adam'?", 2, GOOD,
    ('net: "net.prototxt"', 'type: "adam"\nnet: "net.prototxt"'))
solver('s21', 'a tilde in snapshot_prefix',
    "'~' is not expanded", 0,
    GOOD,
    ('"snap"', '"~/runs/digits"'))
solver('s22', 'freeze with a part of the name',
    "'conv' is not the whole name of a layer with parameter blobs (did you mean 'conv1'?)", 2, GOOD,
    ('max_iter: 10\n', 'max_iter: 10\nfreeze: "conv"\n'))
solver('s23', 'early_stop on a metric that no test has',
    "test net #0 has no output 'top5'; its outputs: accuracy loss", 2, GOOD,
    ('max_iter: 10\n', 'max_iter: 10\nearly_stop { metric: "top5" patience: 3 }\n'))
solver('s24', 'time_limit in words',
    'such as "90s", "45m", "2h30m" or "1d"', 2, GOOD,
    ('max_iter: 10\n', 'max_iter: 10\ntime_limit: "2 hours"\n'))
solver('s25', 'fields of the net in the solver',
    "it belongs in 'data_param' of the data layer", 2, GOOD,
    ('max_iter: 10\n', 'max_iter: 10\nbatch_size: 64\n'))

# ---- flags, command lines and data ----

case('f01', 'the net in place of the solver', 'check net.prototxt',
    'is a net, not a solver: write a solver file with net: "net.prototxt"', 2, GOOD)
case('f02', 'weights in place of the solver', 'train snap_iter_10.caffemodel',
    'is a binary weights file (caffemodel), not a solver: give it with --weights', 2, GOOD)
case('f03', 'a field of the solver as a flag', 'train solver.prototxt --max_iter=20',
    'write --set max_iter=20', 2, GOOD)
case('f04', '--weights with a solverstate', 'train solver.prototxt --weights=snap_iter_10.solverstate',
    'is a solver state, not a weights file (caffemodel): train takes it with --resume', 3,
    'could be better: a wrong flag, but exit code 3 (damaged data), and after 40 lines of log; f02 gets 2 at once')
case('f05', '--resume with a caffemodel', 'train solver.prototxt --resume=snap_iter_10.caffemodel',
    'is a weights file (caffemodel), not a solver state: give it with --weights', 3,
    'could be better: a wrong flag, but exit code 3 (damaged data); f02 gets 2')
case('f06', 'weights of a net with other classes', 'check solver.prototxt --weights=snap_iter_10.caffemodel',
    '--on_mismatch=skip to train it from scratch', 2,
    'could be better: a message for each blob of the layer; one for the layer',
    ('net.prototxt', 'num_output: 10', 'num_output: 12'))
case('f07', 'weights for renamed layers: none fits', 'evaluate net.prototxt snap_iter_10.caffemodel',
    'layer "c1": the file has no blobs for this layer; rename it to \'conv1\'?', 2,
    'could be better: two wordings for three equal causes, `error:` on the first alone; and not that nothing fits',
    ('net.prototxt', 'name: "conv1"', 'name: "c1"'), ('net.prototxt', 'name: "ip1"', 'name: "i1"'),
    ('net.prototxt', 'name: "ip2"', 'name: "i2"'))
case('f08', '--gpu=0 in a build for CPUs', 'train solver.prototxt --gpu=0',
    '--gpu=0: this program was built without CUDA', 4, GOOD)
case('f09', 'train again over the snapshots of an earlier run', 'train solver.prototxt',
    'set another snapshot_prefix, or remove them', 0,
    'could be better: does not say that this run overwrites them, as it then does with snap_iter_10')
case('f10', '--set with a blank in place of =', 'check solver.prototxt --set base_lr 0.1',
    "unexpected argument '0.1'", 2,
    'could be better: names neither --set nor base_lr; should say: write --set base_lr=0.1')
case('f11', '--set for a layer that is not there',
    "check solver.prototxt --set 'layer[conv2].convolution_param.num_output=4'",
    "there is no layer 'conv2' (did you mean 'conv1'?)", 2, GOOD)
case('f12', '--set for a field without its block', "check solver.prototxt --set 'layer[conv1].num_output=4'",
    "did you mean 'convolution_param.num_output'?", 2, GOOD)
case('f13', 'net and weights swapped', 'evaluate snap_iter_10.caffemodel net.prototxt',
    'is a binary weights file (caffemodel), not a net', 2, GOOD)
case('f14', 'evaluate with the deploy net', 'evaluate deploy.prototxt snap_iter_10.caffemodel',
    'is a deploy net, which reads no data set: give the training net', 2, GOOD)
case('f15', 'more class names than classes',
    'evaluate net.prototxt snap_iter_10.caffemodel --report=report --labels=labels.txt',
    'labels.txt has 12 labels, but the net has 10 classes', 2, GOOD,
    ('labels.txt', None, 'ten\neleven\n'))
case('f16', 'classify without weights', 'deploy classify --model=deploy.prototxt digit.png',
    '--weights is required', 2, GOOD)
case('f17', 'classify a file that is no image', 'deploy classify --model=m.crema solver.prototxt',
    'solver.prototxt: the image cannot be decoded', 3, GOOD)
case('f18', 'three means for a gray model', 'deploy classify --model=m.crema --mean=104,117,123 digit.png',
    '--mean has 3 numbers for 1 channels', 2,
    'could be better: no remedy, as n33 has: give one')
case('f19', 'detect with a classifier', 'deploy detect --model=m.crema digit.png',
    'no layer of type DetectionOutput', 2,
    'could be better: a long list of heads, but not that m.crema classifies: use deploy classify')
case('f20', 'segment with a classifier', 'deploy segment --model=m.crema --masks=masks digit.png',
    "segmentation needs scores of N x classes x H x W, 2 to 256 classes; 'prob' is 1x10", 2,
    'could be better: does not name m.crema, nor that it classifies: use deploy classify')
case('f21', 'export to a format that there is not', 'deploy export --run=snap_run -o m.pt',
    "'m.pt' must end in .crema, by which other actions know it, or in .onnx", 2, GOOD)
case('f22', 'export of a run that wrote no weights', 'deploy export --run=other_run -o n.crema',
    "the training has no snapshot 'other_iter_N': train first, or name a file with --weights", 2, GOOD,
    prepare=lambda w, f: w.run('train solver.prototxt --set snapshot_prefix=other --set snapshot_after_train=false', f))
case('f23', 'new with all pictures in one folder', 'new --images=folders/3 -o job',
    'found 2 .png, expected one of', 2, GOOD)
case('f24', 'report of a folder that has no run', 'report train_lmdb -o page.html',
    'holds neither metrics.csv nor an evaluation', 2, GOOD)
case('f25', 'class names in place of numbers in the list', 'convert_imageset folders list.txt db',
    "list.txt:1:1: the label 'three' after 'folders/0/000000.png' is not a whole number; write `path label`", 3, GOOD,
    prepare=lambda w, f: (f / 'list.txt').write_text('%s three\n' % digit(f)))
case('f26', 'images of different sizes without a resize', 'convert_imageset folders list.txt db',
    'a Data layer reads images of several sizes with crop_size only', 0,
    GOOD,
    prepare=two_sizes)
case('f27', 'classify with a net of its own, without the scale of the training',
    'deploy classify --model=deploy.prototxt --weights=snap_iter_10.caffemodel digit.png',
    '', 0,
    'could be better: silent and sure of a wrong class; should note that no mean or scale is given, so that '
    'pixels enter as 0 to 255')
case('f28', 'labels from 1 to 10', 'check solver.prototxt',
    '"ip2" has 10 outputs (labels 0..9; does your set start at 1?)', 3, GOOD,
    prepare=labels_from_1)
case('f29', 'the path of data.mdb in place of its folder', 'check solver.prototxt',
    "is a file in an LMDB: name its folder, 'train_lmdb'", 3, GOOD,
    ('net.prototxt', '"train_lmdb"', '"train_lmdb/data.mdb"'))
case('f30', 'a data set whose copy was cut short', 'check solver.prototxt',
    'is cut short: it has 100000 bytes, 217088 are needed; copy or write it again', 3, GOOD,
    prepare=lambda w, f: os.truncate(f / 'train_lmdb' / 'data.mdb', 100000))
case('f31', 'serve on a port in use', 'serve m.crema --grpc_port=-1 --port=PORT',
    'choose another with --port', 3, GOOD)
case('f32', 'serve with a certificate but no key', 'serve m.crema --tls_cert=labels.txt',
    '--tls_cert and --tls_key go together', 2, GOOD)
case('f33', 'weights rename of a layer that is not there',
    'weights rename snap_iter_10.caffemodel fc8=fc9 -o out.caffemodel',
    "has no layer 'fc8' with blobs", 2,
    'could be better: does not list those that it has: conv1 ip1 ip2 (s22 does)')
case('f34', 'import of a .pth as if it were a model', 'import net.pth -o folder',
    "is a PyTorch file, not an ONNX model: fill a net from it with 'crema import --weights=FILE --onto=NET", 3,
    'could be better: exit code 3 is for damaged files; this one is a usage error', prepare=write_pth)
case('f35', 'a range in a grid sweep', 'sweep --solver=solver.prototxt --over base_lr=0.001..0.1',
    'ranges need --search=random or --search=halving', 2, GOOD)


# ---- running ----

class Workshop:
    """The good files, made once in `folder`/good, and copies of them."""

    def __init__(self, programs, folder):
        self.crema = str(programs / 'crema')
        self.folder = folder
        self.good = folder / 'good'
        self.good.mkdir()
        self.environment = {**os.environ, 'LC_ALL': 'C', 'OMP_NUM_THREADS': '1'}
        self.port = socket.socket()  # a port in use
        self.port.bind(('127.0.0.1', 0))
        self.port.listen()

    def run(self, command, folder, timeout=TIMEOUT):
        """The exit code and the whole answer, the log first; None for a command that did not end."""
        words = shlex.split(command.replace('PORT', str(self.port.getsockname()[1])))
        if words[0] in THREADED or words[:2] == ['deploy', 'classify']:
            words.append('--threads=1')
        try:
            done = subprocess.run([self.crema] + words, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            return None, text(error.stderr) + text(error.stdout)
        return done.returncode, text(done.stderr) + text(done.stdout)

    def prepare(self):
        (self.good / 'net.prototxt').write_text(NET)
        (self.good / 'solver.prototxt').write_text(SOLVER)
        (self.good / 'deploy.prototxt').write_text(DEPLOY)
        (self.good / 'labels.txt').write_text(''.join('%d\n' % i for i in range(10)))
        for command in ['make_digits --count=200 train_lmdb', 'make_digits --count=100 --seed=2 test_lmdb',
                        'make_digits --count=20 --seed=3 --layout=folders folders', 'train solver.prototxt',
                        'deploy export --run=snap_run -o m.crema']:
            code, answer = self.run(command, self.good, 300)
            if code != 0:
                sys.exit('crema %s failed:\n%s' % (command, answer))
        shutil.copy(self.good / 'folders' / digit(self.good), self.good / 'digit.png')

    def answer(self, case):
        folder = self.folder / case.id
        shutil.copytree(self.good, folder)
        for name, old, new in case.edits:
            replace(folder / name, old, new)
        if case.prepare:
            case.prepare(self, folder)
        result = self.run(case.command, folder)
        shutil.rmtree(folder)
        return result


def text(output):
    return (output or b'').decode('utf-8', 'replace')


def first_line(answer):
    """The first error or warning, else the last line."""
    answer = re.sub(r'(?m)^W\d{4} \S+ +\d+ \S+ ', 'warning: ', answer)
    answer = re.sub(r'(warnings?) in [\d.]+ s$', r'\1', answer.rstrip('\n'))
    lines = [line for line in answer.split('\n') if line.strip()]
    found = [line for line in lines if line.startswith(('error:', 'warning:'))]
    line = found[0] if found else 'no error and no warning: ' + (lines[-1] if lines else '(no output)')
    return ''.join(c if c.isprintable() else '?' for c in line)


def cell(value, length=None):
    value = value if length is None or len(value) <= length else value[:length - 3] + '...'
    return value.replace('|', '\\|')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bin', required=True, type=pathlib.Path, help='folder of the programs')
    parser.add_argument('--only', default='', help='cases whose id begins with one of these, separated by commas')
    parser.add_argument('--show', action='store_true', help='print whole answers in place of the table')
    flags = parser.parse_args()
    failures = []
    counts = collections.Counter()
    cases = [c for c in CASES if c.id.startswith(tuple(flags.only.split(',')))]
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(flags.bin.resolve(), pathlib.Path(folder))
        workshop.prepare()
        if not flags.show:
            print('| Id | Mistake | What Crema says | Judgement |\n|---|---|---|---|')
        for c in cases:
            code, answer = workshop.answer(c)
            answer = answer.replace(folder, '')
            if flags.show:
                print('==== %s: %s\n$ crema %s\n%s(exit code %s)\n' % (c.id, c.mistake, c.command, answer, code), flush=True)
            else:
                line = first_line(answer).replace(str(workshop.port.getsockname()[1]), 'PORT')
                print('| %s | %s | %s | %s |' % (c.id, cell(c.mistake), cell(line, 160), cell(c.judgement)), flush=True)
            counts[c.judgement.split(':')[0]] += 1
            if code != c.code:
                failures.append('%s: the exit code is %s, not %d' % (c.id, code if code is not None else 'none', c.code))
            if c.says not in answer:
                failures.append('%s: the answer lacks %r' % (c.id, c.says))
        workshop.port.close()
    for failure in failures:
        print(failure, file=sys.stderr)
    print('%d cases: %s; %d failures' % (
        len(cases), ', '.join('%d %s' % (counts[kind], kind) for kind in (GOOD, 'could be better', 'bad')), len(failures)),
        file=sys.stderr)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
