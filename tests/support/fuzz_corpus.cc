#include "support/fuzz_corpus.h"

#include <google/protobuf/io/coded_stream.h>

#include <set>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

constexpr const char* kNet = R"(name: "small"
layer {
  name: "data"
  type: "Input"
  top: "data"
  input_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } }
}
layer {
  name: "label"
  type: "DummyData"
  top: "label"
  dummy_data_param { shape { dim: 2 } data_filler { type: "constant" value: 1 } }
}
layer {
  name: "conv"
  type: "Convolution"
  bottom: "data"
  top: "conv"
  param { lr_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } }
}
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer {
  name: "pool"
  type: "Pooling"
  bottom: "conv"
  top: "pool"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 }
}
layer {
  name: "ip" type: "InnerProduct"
  bottom: "pool"
  top: "ip"
  inner_product_param { num_output: 3 }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

constexpr const char* kOldNet = R"(name: "old"
input: "data" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 5
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 blobs_lr: 2
  convolution_param { num_output: 3 kernel_size: 3 } }
layers { name: "relu1" type: RELU bottom: "c" top: "c" }
)";

constexpr const char* kSolver = R"(net: "net.prototxt"
base_lr: 0.01
lr_policy: "step"
stepsize: 100
max_iter: 1000
solver_type: SGD
snapshot_prefix: "out/small"
)";

std::string WithTempFile(const std::string& name, void (*write)(const std::string& path)) {
  const TempDir folder;
  write(folder.File(name));
  return folder.Read(name);
}

BlobProto BlobOfSizes(std::initializer_list<int64_t> sizes) {
  BlobProto blob;
  int64_t count = 1;
  for (const int64_t dim : sizes) {
    blob.mutable_shape()->add_dim(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) blob.add_data(static_cast<float>(i) / 8);
  return blob;
}

NetParameter SmallModel() {
  NetParameter net;
  net.set_name("small");
  LayerParameter* conv = net.add_layer();
  conv->set_name("conv1");
  conv->set_type("Convolution");
  *conv->add_blobs() = BlobOfSizes({3, 2, 3, 3});
  *conv->add_blobs() = BlobOfSizes({3});
  LayerParameter* ip = net.add_layer();
  ip->set_name("ip");
  ip->set_type("InnerProduct");
  *ip->add_blobs() = BlobOfSizes({4, 27});
  *ip->add_blobs() = BlobOfSizes({4});
  return net;
}

NetParameter OldModel() {
  NetParameter net;
  V1LayerParameter* layer = net.add_layers();
  layer->set_name("conv1");
  layer->set_type(V1LayerParameter::CONVOLUTION);
  BlobProto* blob = layer->add_blobs();
  *blob = BlobOfSizes({3, 2, 3, 3});
  blob->clear_shape();
  blob->set_num(3);
  blob->set_channels(2);
  blob->set_height(3);
  blob->set_width(3);
  *layer->add_blobs() = BlobOfSizes({3});
  return net;
}

SolverState SmallState() {
  SolverState state;
  state.set_iter(7);
  state.set_learned_net("m.caffemodel");
  state.set_current_step(0);
  *state.add_history() = BlobOfSizes({3, 2});
  return state;
}

std::string RawDatum() {
  Datum datum;
  datum.set_channels(3);
  datum.set_height(2);
  datum.set_width(4);
  datum.set_label(5);
  datum.set_data(std::string(24, '\x42'));
  return datum.SerializeAsString();
}

// Returns the smallest image file that OpenCV reads, as an encoded Datum. Useless without OpenCV.
[[maybe_unused]] std::string EncodedDatum() {
  Datum datum;
  datum.set_encoded(true);
  datum.set_label(1);
  datum.set_data("P5\n3 2\n255\n" + std::string("\x01\x02\x03\x04\x05\x06", 6));
  return datum.SerializeAsString();
}

// Offsets at which a field of a serialized message begins, one level of nesting after the other.
void FieldOffsets(std::string_view bytes, size_t base, int depth, std::vector<size_t>* offsets) {
  using google::protobuf::io::CodedInputStream;
  CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
  std::vector<size_t> found;
  std::vector<std::pair<size_t, size_t>> nested;
  uint32_t tag = 0;
  while (found.push_back(base + static_cast<size_t>(stream.CurrentPosition())),
         (tag = stream.ReadTag()) != 0) {
    const uint32_t kind = tag & 7U;
    uint64_t number = 0;
    uint32_t word = 0;
    if (kind == 0) {
      if (!stream.ReadVarint64(&number)) return;
    } else if (kind == 1) {
      if (!stream.ReadLittleEndian64(&number)) return;
    } else if (kind == 5) {
      if (!stream.ReadLittleEndian32(&word)) return;
    } else if (kind == 2) {
      if (!stream.ReadVarint32(&word)) return;
      const auto start = static_cast<size_t>(stream.CurrentPosition());
      if (!stream.Skip(static_cast<int>(word))) return;
      nested.emplace_back(start, word);
    } else {
      return;
    }
  }
  offsets->insert(offsets->end(), found.begin(), found.end());
  for (const auto& [start, size] : nested) {
    if (depth > 0 && size > 1)
      FieldOffsets(bytes.substr(start, size), base + start, depth - 1, offsets);
  }
}

void Truncate(const CorpusFile& whole, const std::vector<size_t>& offsets,
              std::vector<CorpusFile>* files) {
  for (const size_t at : offsets) {
    if (at >= whole.bytes.size()) continue;
    files->push_back(
        {StrCat(whole.name, " cut at byte ", at), whole.target, whole.bytes.substr(0, at), ""});
  }
}

void TruncateText(const CorpusFile& whole, std::vector<CorpusFile>* files) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < whole.bytes.size(); ++i) {
    const char c = whole.bytes[i];
    if (c == '\n' || c == '{' || c == ':' || c == '"') offsets.push_back(i + 1);
  }
  Truncate(whole, offsets, files);
}

void FlipBits(const CorpusFile& whole, int count, std::vector<CorpusFile>* files) {
  const RandomStream stream(11, HashName(whole.name));
  for (int i = 0; i < count; ++i) {
    CorpusFile file = whole;
    const auto at =
        stream.Below(static_cast<uint64_t>(i), static_cast<uint32_t>(file.bytes.size()));
    file.bytes[at] = static_cast<char>(file.bytes[at] ^ (1 << (i % 8)));
    file.name = StrCat(whole.name, " with bit ", i % 8, " of byte ", at, " flipped");
    file.expect.clear();
    files->push_back(std::move(file));
  }
}

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string InputOf(const std::string& dims) {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { " + dims + " } } }\n";
}

void AddNets(std::vector<CorpusFile>* files) {
  const auto add = [&](const std::string& name, const std::string& text,
                       const std::string& expect) {
    files->push_back({name, "prototxt", text, expect});
  };
  const std::string dims = "dim: 2 dim: 3 dim: 4 dim: 4";
  const auto conv = [&](const std::string& param) {
    return InputOf(dims) +
           "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
           "convolution_param { " +
           param + " } }";
  };
  add("huge sizes", InputOf("dim: 1000000 dim: 1000000"), "2147483647");
  add("sizes whose product overflows 64 bits", InputOf(Repeat("dim: 4294967296 ", 4)),
      "2147483647");
  add("a negative size", InputOf("dim: -3"), "-3");
  add("the smallest size", InputOf("dim: -9223372036854775808"), "-9223372036854775808");
  add("40 axes", InputOf(Repeat("dim: 1 ", 40)), "axes");
  add("a size of zero", InputOf("dim: 0 dim: 3"), "");
  add("an empty batch of huge planes",
      InputOf("dim: 0 dim: 3 dim: 4 dim: 4") +
          "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
          "convolution_param { num_output: 1 kernel_size: 3 pad: 4294967295 } }",
      "2147483647");
  add("a huge number of outputs", conv("num_output: 4294967295 kernel_size: 3"), "2147483647");
  add("a huge kernel", conv("num_output: 1 kernel_size: 4294967295"), "kernel");
  add("huge padding", conv("num_output: 1 kernel_size: 3 pad: 4294967295"), "");
  add("a huge dilation", conv("num_output: 1 kernel_size: 3 dilation: 4294967295"), "");
  add("a stride of zero", conv("num_output: 1 kernel_size: 3 stride: 0"), "stride");
  add("a group of zero", conv("num_output: 1 kernel_size: 3 group: 0"), "group");
  add("NaN as a filler", conv("num_output: 1 kernel_size: 3 weight_filler { value: nan }"), "");
  add("a loop among blobs",
      "layer { name: 'a' type: 'ReLU' bottom: 'q' top: 'p' }\n"
      "layer { name: 'b' type: 'ReLU' bottom: 'p' top: 'q' }",
      "q");
  add("a layer that reads itself", "layer { name: 'a' type: 'Sigmoid' bottom: 'a' top: 'a' }", "a");
  add("two layers that make one blob",
      InputOf(dims) +
          "layer { name: 'a' type: 'TanH' bottom: 'x' top: 'y' }\n"
          "layer { name: 'b' type: 'TanH' bottom: 'x' top: 'y' }",
      "y");
  add("deep nesting", Repeat("layer { ", 100000), "");
  add("deep nesting of unknown fields", Repeat("a { ", 100000), "");
  add("far too many layers", Repeat("layer{}", 300000), "most is 100000");
  add("a million layers", Repeat("layer{}", 1000000), "most is 100000");
  add("an endless name", "name: \"" + std::string(1 << 20, 'x'), "");
  add("bytes that are not UTF-8", "name: \"\xff\xfe\x80\"", "");
  add("zeros", std::string(4096, '\0'), "");
  add("nothing", "", "");
  add("a number of 400 digits", InputOf("dim: " + std::string(400, '9')), "dim");
  add("an unknown type", "layer { name: 'a' type: 'Convolutoin' top: 'x' }", "Convolution");
  add("an HTML page", "<!DOCTYPE html><html><body>404</body></html>", "HTML");
  add("old and new layers at once", InputOf(dims) + "layers { name: 'a' type: RELU }", "");
}

void AddModels(std::vector<CorpusFile>* files) {
  const auto add = [&](const std::string& name, const NetParameter& net) {
    files->push_back({name, "caffemodel", net.SerializeAsString(), ""});
  };
  NetParameter huge = SmallModel();
  huge.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->set_dim(0, int64_t{1} << 40);
  add("a blob of 2^40 x ... with few values", huge);
  NetParameter negative = SmallModel();
  negative.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->set_dim(0, -3);
  add("a blob with a negative size", negative);
  NetParameter few = SmallModel();
  few.mutable_layer(0)->mutable_blobs(0)->clear_data();
  add("a blob without values", few);
  NetParameter both = SmallModel();
  both.mutable_layer(0)->mutable_blobs(0)->add_double_data(1);
  add("a blob with float and double values", both);
  NetParameter raw = SmallModel();
  raw.mutable_layer(0)->mutable_blobs(0)->clear_data();
  raw.mutable_layer(0)->mutable_blobs(0)->set_raw_data("xyz");
  raw.mutable_layer(0)->mutable_blobs(0)->set_raw_data_type(FLOAT16);
  add("raw values of an odd number of bytes", raw);
  NetParameter axes = SmallModel();
  for (int i = 0; i < 64; ++i) axes.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->add_dim(1);
  add("a blob with 68 axes", axes);
  files->push_back({"text where weights are expected", "caffemodel", kNet, "text"});
  files->push_back({"a page in place of weights", "caffemodel", "<html><body>", "HTML"});
  files->push_back({"a Git LFS pointer", "caffemodel",
                    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n", "LFS"});
  files->push_back({"no weights at all", "caffemodel", "", "empty"});
}

void AddData(std::vector<CorpusFile>* files) {
  const auto add = [&](const std::string& name, const Datum& datum) {
    // Bytes take precedence over floats, as in Caffe.
    const bool accepted = !datum.data().empty() && datum.float_data_size() > 0;
    files->push_back({name, "datum", datum.SerializeAsString(), accepted ? "" : "key"});
  };
  Datum datum;
  datum.ParseFromString(RawDatum());
  Datum huge = datum;
  huge.set_channels(1 << 30);
  huge.set_height(1 << 30);
  add("a datum of 2^60 pixels", huge);
  Datum negative = datum;
  negative.set_width(-4);
  add("a datum of negative width", negative);
  Datum both = datum;
  both.add_float_data(1);
  add("a datum with bytes and floats", both);
  Datum broken = datum;
  broken.set_encoded(true);
  add("a datum whose image is none", broken);
}

bool IsText(const std::string& target) {
  return std::set<std::string>{"prototxt", "solver", "list", "windows"}.contains(target);
}
// Those whose fields are of protobuf's wire format.
bool IsMessage(const std::string& target) {
  return std::set<std::string>{"caffemodel", "solverstate", "datum", "annotated", "onnx", "onnxnet"}
      .contains(target);
}

}  // namespace

std::vector<CorpusFile> WholeFiles() {
  std::vector<CorpusFile> files = {
      {"net", "prototxt", kNet, ""},
      {"old net", "prototxt", kOldNet, ""},
      {"solver", "solver", kSolver, ""},
      {"sealed model", "caffemodel",
       WithTempFile("m.caffemodel", [](const std::string& p) { WriteCaffemodel(SmallModel(), p); }),
       ""},
      {"stock model", "caffemodel", SmallModel().SerializeAsString(), ""},
      {"old model", "caffemodel", OldModel().SerializeAsString(), ""},
      {"sealed state", "solverstate",
       WithTempFile("s.solverstate",
                    [](const std::string& p) { WriteSolverState(SmallState(), p); }),
       ""},
      {"stock state", "solverstate", SmallState().SerializeAsString(), ""},
      {"datum", "datum", RawDatum(), ""},
#ifdef CREMA_HAVE_OPENCV
      {"encoded datum", "datum", EncodedDatum(), ""},
#endif
  };
#ifdef CREMA_HAVE_HDF5
  files.push_back({"HDF5 model", "hdf5",
                   WithTempFile("m.caffemodel.h5",
                                [](const std::string& p) { WriteCaffemodelHdf5(SmallModel(), p); }),
                   ""});
  files.push_back(
      {"HDF5 state", "hdf5",
       WithTempFile("s.solverstate.h5",
                    [](const std::string& p) { WriteSolverStateHdf5(SmallState(), p); }),
       ""});
#endif
  AddWholeData(&files);
  AddWholeModelFile(&files);
  AddWholeStateDicts(&files);
  AddWholeOnnx(&files);
  return files;
}

std::vector<CorpusFile> BrokenFiles() {
  std::vector<CorpusFile> files;
  for (const CorpusFile& whole : WholeFiles()) {
    const bool few = IsText(whole.target) || IsMessage(whole.target) || whole.target == "hdf5rows";
    FlipBits(whole, few ? 64 : 200, &files);
    if (IsText(whole.target)) TruncateText(whole, &files);
    if (IsText(whole.target)) continue;
    std::vector<size_t> offsets;
    if (IsMessage(whole.target)) {
      FieldOffsets(whole.bytes, 0, 3, &offsets);
    } else {
      const size_t step = whole.bytes.size() / 50 + 1;
      for (size_t at = 0; at < whole.bytes.size(); at += step) offsets.push_back(at);
    }
    Truncate(whole, offsets, &files);
  }
  AddNets(&files);
  AddModels(&files);
  AddData(&files);
  return files;
}

}  // namespace crema::test
