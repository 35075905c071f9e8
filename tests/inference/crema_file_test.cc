// Files of `deploy export`: intact ones compute the same as the net, all others are refused.
#include "inference/crema_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/seal.h"
#include "inference/crema_export.h"
#include "inference/crema_layout.h"
#include "inference/model_parts.h"
#include "math/int8_weights.h"
#include "runtime/weights.h"
#include "support/serving_nets.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Answer;
using test::Drawn;
using test::kSmallNet;
using test::ModelOf;

// A file of some thousand bytes.
const char* const kTinyNet = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
)";

std::shared_ptr<const Model> OpenFile(const std::string& path, const ModelOptions& options = {}) {
  return Model::Open(path, options, test::TestRegistry(), NullSink());
}

struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

Refusal RefusalOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "accepted"};
}

std::string TinyFile() {
  const test::TempDir folder;
  ExportModel(ModelOf(kTinyNet), folder.File("m.crema"));
  return folder.Read("m.crema");
}

Refusal Read(const std::string& bytes) {
  return RefusalOf([&] { ReadCremaFile(bytes, "m.crema"); });
}

void ExpectRefused(const Refusal& refusal, ErrorCode code, const std::string& part) {
  EXPECT_EQ(refusal.code, code) << refusal.message;
  EXPECT_NE(refusal.message.find(part), std::string::npos) << refusal.message;
}

// With a valid checksum, as an attacker would make it.
std::string Sealed(std::string bytes) {
  const std::string_view all = bytes;
  const uint32_t crc =
      Crc32(all.substr(crema_layout::kSizeAt), Crc32(all.substr(0, crema_layout::kChecksumAt)));
  std::memcpy(bytes.data() + crema_layout::kChecksumAt, &crc, sizeof(crc));
  return bytes;
}

// The file with another header; moves the tensors to make room.
std::string WithHeader(const std::string& bytes,
                       const std::function<void(CremaFileHeader*)>& change) {
  constexpr size_t kRoom = 1024;
  CremaFileHeader header = ReadCremaFile(bytes, "m.crema");
  const size_t data = crema_layout::Aligned(crema_layout::kHeaderAt + header.ByteSizeLong());
  crema_layout::ForEachTensor(header, [](StoredTensor& t) { t.set_offset(t.offset() + kRoom); });
  change(&header);
  std::string changed = bytes.substr(0, crema_layout::kHeaderAt) + header.SerializeAsString();
  const uint64_t header_bytes = changed.size() - crema_layout::kHeaderAt;
  changed.resize(data + kRoom);
  changed += bytes.substr(data);
  const uint64_t size = changed.size();
  std::memcpy(changed.data() + crema_layout::kHeaderSizeAt, &header_bytes, sizeof(header_bytes));
  std::memcpy(changed.data() + crema_layout::kSizeAt, &size, sizeof(size));
  return Sealed(changed);
}

TEST(CremaFile, ComputesWhatTheNetDid) {
  const test::TempDir folder;
  ModelCard card{.name = "small", .task = "classify", .preprocessing = {}, .labels = {"a", "b"}};
  card.preprocessing = {.invert = true, .scale = 0.5F, .mean = {1, 2, 3}, .rgb = true};
  const auto model = Model::Make(ParseNet(kSmallNet, "net.prototxt"), {}, card, {},
                                 test::TestRegistry(), NullSink());
  const std::string path = folder.File("m.crema");
  ExportModel(model, path);
  EXPECT_EQ(folder.FileCount(), 1U);
  const auto opened = OpenFile(path);
  EXPECT_EQ(opened->card().name, "small");
  EXPECT_EQ(opened->card().task, "classify");
  EXPECT_EQ(opened->card().labels, card.labels);
  EXPECT_TRUE(opened->card().preprocessing.invert);
  EXPECT_TRUE(opened->card().preprocessing.rgb);
  EXPECT_EQ(opened->card().preprocessing.scale, 0.5F);
  EXPECT_EQ(opened->card().preprocessing.mean, card.preprocessing.mean);
  EXPECT_EQ(opened->inputs()[0].shape, model->inputs()[0].shape);
  ModelRunner before(model);
  ModelRunner after(opened);
  for (const int64_t batch : {1, 3, 2}) {
    const Tensor input = Drawn({batch, 3, 12, 12}, static_cast<uint64_t>(batch));
    EXPECT_EQ(Answer(&after, input), Answer(&before, input)) << batch;
  }
}

// A convolution and a transposed product on bytes, and a product on floats.
const char* const kByteNet = R"(precision: INT8
layer { name: "data" type: "Input" top: "data" int8 { top { max: 4 } }
  input_param { shape { dim: 1 dim: 16 dim: 6 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  int8 { bottom { max: 4 } top { max: 12 } }
  convolution_param { num_output: 32 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  int8 { bottom { max: 12 } top { max: 20 } }
  inner_product_param { num_output: 16 transpose: true weight_filler { type: "msra" } } }
layer { name: "last" type: "InnerProduct" bottom: "ip" top: "prob" precision: FP32
  inner_product_param { num_output: 4 weight_filler { type: "msra" } } }
)";

// The net with the convolution on bytes, and so the product behind it. Null if a build or a
// processor has no implementations on bytes.
std::shared_ptr<const Model> ByteModel() {
  ModelOptions options;
  options.plan.pinned = {{"conv", "int8"}};
  try {
    return ModelOf(kByteNet, options);
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(CremaFile, StoresTheWeightsOfBytesAsBytes) {
  const auto model = ByteModel();
  if (model == nullptr) GTEST_SKIP() << "there are no implementations on bytes";
  const test::TempDir folder;
  ExportModel(model, folder.File("m.crema"));
  const std::string file = folder.Read("m.crema");
  EXPECT_EQ(int{file[crema_layout::kFormatAt]}, 3);
  const CremaFileHeader header = ReadCremaFile(file, "m.crema");
  for (const StoredTensor& tensor : header.learned()) {
    const bool are_bytes = tensor.index() == 0 && tensor.name() != "last";
    EXPECT_EQ(tensor.type(), are_bytes ? StoredTensor::I8 : StoredTensor::F32) << tensor.name();
  }
  ModelRunner before(model);
  ModelRunner after(OpenFile(folder.File("m.crema"), model->parts().options));
  const Tensor input = Drawn({3, 16, 6, 6}, 7);
  const std::vector<float> right = Answer(&before, input), rounded = Answer(&after, input);
  // The file has weights in 127 steps. A processor without VNNI rounds them once more, to 63.
  const double most = LargestInt8Weight() == 127 ? 0.2 : 1.0;
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(rounded[i], right[i], most) << i;
}

// Rounding rounded weights changes nothing.
TEST(CremaFile, ExportsWeightsOfBytesAgainAsTheSameBytes) {
  const auto model = ByteModel();
  if (model == nullptr) GTEST_SKIP() << "there are no implementations on bytes";
  const test::TempDir folder;
  ExportModel(model, folder.File("a.crema"));
  ExportModel(OpenFile(folder.File("a.crema"), model->parts().options), folder.File("b.crema"));
  const std::string a = folder.Read("a.crema"), b = folder.Read("b.crema");
  const CremaFileHeader of_a = ReadCremaFile(a, "a.crema"), of_b = ReadCremaFile(b, "b.crema");
  ASSERT_EQ(of_a.learned_size(), of_b.learned_size());
  for (int i = 0; i < of_a.learned_size(); ++i) {
    const auto bytes = [&](const std::string& file, const StoredTensor& tensor) {
      return file.substr(tensor.offset(), tensor.bytes());
    };
    EXPECT_EQ(bytes(a, of_a.learned(i)), bytes(b, of_b.learned(i))) << of_a.learned(i).name();
  }
}

// A file with the weights 2 x 3 of bytes 1, 2, 3, 4, 5, -6, with the steps on one of the axes.
std::string ByteFile(int axis, const std::vector<float>& steps) {
  static const int8_t kBytes[] = {1, 2, 3, 4, 5, -6};
  CremaContents contents;
  contents.tensors = {{kBytes, Shape{2, 3}, DType::kU8}};
  StoredTensor tensor = Describe("ip", contents.tensors[0]);
  tensor.set_type(StoredTensor::I8);
  tensor.set_step_axis(static_cast<uint32_t>(axis));
  tensor.mutable_step()->Add(steps.begin(), steps.end());
  *contents.header.add_learned() = tensor;
  const test::TempDir folder;
  WriteCremaFile(std::move(contents), folder.File("m.crema"), {});
  return folder.Read("m.crema");
}

TEST(CremaFile, MultipliesBytesByTheStepOfTheirOutput) {
  const auto read = [](const std::string& file) {
    std::deque<Tensor> converted;
    const CremaFileHeader header = ReadCremaFile(file, "m.crema");
    const auto span = WeightIn(file, header.learned(0), &converted).span<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(read(ByteFile(0, {0.5F, 2})), (std::vector<float>{0.5F, 1, 1.5F, 8, 10, -12}));
  EXPECT_EQ(read(ByteFile(1, {1, 0, 2})), (std::vector<float>{1, 0, 6, 4, 0, -12}));
}

TEST(CremaFile, RefusesBytesWithWrongSteps) {
  const auto refuse = [](const std::string& file, const std::string& part) {
    ExpectRefused(Read(file), ErrorCode::kDataLoss, part);
  };
  refuse(ByteFile(0, {1}), "'ip' of 2x3 has 1 steps on axis 0");
  refuse(ByteFile(1, {1, 2}), "'ip' of 2x3 has 2 steps on axis 1");
  refuse(ByteFile(2, {1}), "'ip' of 2x3 has 1 steps on axis 2");
  refuse(ByteFile(-1, {1}), "'ip' of 2x3 has 1 steps on axis 4294967295");
  const std::string recorded = WithHeader(ByteFile(0, {1, 2}), [](CremaFileHeader* header) {
    *header->mutable_recording()->add_input() = header->learned(0);
    header->clear_learned();
  });
  refuse(recorded, "tensor 'ip' of the recording has steps");
}

TEST(CremaFile, KeepsHowImagesAreResized) {
  const test::TempDir folder;
  ModelCard card{.name = "small", .task = "classify", .preprocessing = {}, .labels = {}};
  const auto exported = [&] {
    const auto model = Model::Make(ParseNet(kSmallNet, "net.prototxt"), {}, card, {},
                                   test::TestRegistry(), NullSink());
    ExportModel(model, folder.File("m.crema"));
    return folder.Read("m.crema");
  };
  const auto format = [](const std::string& file) { return int{file[crema_layout::kFormatAt]}; };
  // Older versions read files that do not need the newer fields.
  EXPECT_EQ(format(exported()), 1);
  const Preprocessing every[] = {
      {.range = 1, .deviation = {1, 2, 3}},
      {.fit = ImageFit::kCrop, .short_side = 20, .interpolation = Interpolation::kAntialias},
      {.fit = ImageFit::kCrop, .resize_height = 20, .resize_width = 30},
      {.fit = ImageFit::kLetterbox, .interpolation = Interpolation::kArea, .pad = 0}};
  for (const Preprocessing& one : every) {
    card.preprocessing = one;
    EXPECT_EQ(format(exported()), 2);
    EXPECT_TRUE(OpenFile(folder.File("m.crema"))->card().preprocessing == one);
  }
  card.preprocessing = {.fit = ImageFit::kCrop, .short_side = 20, .ten_crops = true};
  EXPECT_EQ(format(exported()), 4);
  EXPECT_TRUE(OpenFile(folder.File("m.crema"))->card().preprocessing == card.preprocessing);
}

TEST(CremaFile, AnUnknownTaskIsRefused) {
  const test::TempDir folder;
  const ModelCard card{.name = "small", .task = "", .preprocessing = {}, .labels = {}};
  const auto model = Model::Make(ParseNet(kSmallNet, "net.prototxt"), {}, card, {},
                                 test::TestRegistry(), NullSink());
  ExportModel(model, folder.File("m.crema"));
  folder.Write("bad.crema", WithHeader(folder.Read("m.crema"), [](CremaFileHeader* header) {
                 header->set_task("classify\nready");
               }));
  ExpectRefused(RefusalOf([&] { OpenFile(folder.File("bad.crema")); }), ErrorCode::kDataLoss,
                "has a task that this version does not know");
}

TEST(CremaFile, PreprocessingThatDoesNotFitIsRefused) {
  const test::TempDir folder;
  ModelCard card{.name = "small", .task = "classify", .preprocessing = {}, .labels = {}};
  const auto model = Model::Make(ParseNet(kSmallNet, "net.prototxt"), {}, card, {},
                                 test::TestRegistry(), NullSink());
  ExportModel(model, folder.File("m.crema"));
  const std::string bytes = folder.Read("m.crema");
  const auto refusal = [&](const std::function<void(PreprocessingParameter*)>& change) {
    folder.Write("bad.crema", WithHeader(bytes, [&](CremaFileHeader* header) {
                   change(header->mutable_preprocessing());
                 }));
    return RefusalOf([&] { OpenFile(folder.File("bad.crema")); });
  };
  ExpectRefused(refusal([](PreprocessingParameter* p) { p->set_short_side(4000000000U); }),
                ErrorCode::kDataLoss, "out of range");
  ExpectRefused(refusal([](PreprocessingParameter* p) { p->set_fit("somehow"); }),
                ErrorCode::kDataLoss, "bad.crema: unknown fit 'somehow'");
  ExpectRefused(refusal([](PreprocessingParameter* p) { p->add_deviation(0); }),
                ErrorCode::kInvalidArgument, "standard deviation");
  ExpectRefused(refusal([](PreprocessingParameter* p) { p->set_range(-1); }),
                ErrorCode::kInvalidArgument, "(pixel_range) is -1");
  ExpectRefused(refusal([](PreprocessingParameter* p) { p->set_ten_crops(true); }),
                ErrorCode::kInvalidArgument, "ten crops (ten_crops) need the fit 'crop'");
}

// A byte output without consumer is returned.
TEST(CremaFile, BytesMayBeOutputs) {
  const test::TempDir folder;
  ExportModel(ModelOf(StrCat(kTinyNet, R"(
layer { name: "raw" type: "Input" top: "raw" input_param { shape { dim: 1 dim: 2 } }
  pipeline_param { output: U8 } }
)")),
              folder.File("m.crema"));
  const auto opened = OpenFile(folder.File("m.crema"));
  ASSERT_EQ(opened->outputs().size(), 2U);
  EXPECT_EQ(opened->outputs()[1].dtype, DType::kU8);
}

TEST(CremaFile, EqualModelsMakeEqualFiles) { EXPECT_EQ(TinyFile(), TinyFile()); }

// The weights of the opened model are the pages of the file.
TEST(CremaFile, WeightsAreMapped) {
  const test::TempDir folder;
  const std::string path = folder.Write("m.crema", TinyFile());
  const auto model = OpenFile(path);
  const ConstTensorView weight = model->weights()->blob(0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.raw()) % 64, 0U);
  std::ifstream maps("/proc/self/maps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) == std::string::npos) continue;
    const auto begin = std::stoull(line, nullptr, 16);
    const auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    const auto at = reinterpret_cast<uintptr_t>(weight.raw());
    inside = inside || (begin <= at && at < end);
  }
  EXPECT_TRUE(inside);
}

TEST(CremaFile, EachTruncationIsRefused) {
  const std::string bytes = TinyFile();
  ASSERT_LT(bytes.size(), 8192U);
  ExpectRefused(Read(""), ErrorCode::kInvalidArgument, "is empty");
  for (size_t size = 1; size < bytes.size(); ++size) {
    ExpectRefused(Read(bytes.substr(0, size)), ErrorCode::kDataLoss, "is truncated");
  }
  ExpectRefused(Read(bytes + std::string(64, '\0')), ErrorCode::kDataLoss, "was altered");
}

TEST(CremaFile, EachAlteredByteIsRefused) {
  const std::string bytes = TinyFile();
  EXPECT_EQ(Read(bytes).message, "accepted");
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string altered = bytes;
      altered[at] = static_cast<char>(altered[at] ^ mask);
      EXPECT_NE(Read(altered).message, "accepted") << at;
    }
  }
}

TEST(CremaFile, OtherKindsAndNewerFormatsSayWhatTheyAre) {
  ExpectRefused(Read("layer { name: 'x' }"), ErrorCode::kInvalidArgument, "is not a model file");
  std::string newer = TinyFile();
  newer[crema_layout::kFormatAt] = 5;
  ExpectRefused(Read(newer), ErrorCode::kInvalidArgument,
                "is a model file of format 5; this version of Crema reads up to 4");
  ExpectRefused(RefusalOf([] { OpenFile("/no/such/file.crema"); }), ErrorCode::kNotFound,
                "no such file");
  const test::TempDir folder;
  ExpectRefused(RefusalOf([&] { OpenFile(folder.path()); }), ErrorCode::kInvalidArgument,
                "is a folder");
}

struct Hostile {
  const char* name;
  std::function<void(CremaFileHeader*)> change;
  std::string expect;
};

TEST(CremaFile, HostileHeadersAreRefused) {
  const auto weight = [](CremaFileHeader* header) { return header->mutable_learned(0); };
  const std::vector<Hostile> headers = {
      {"huge", [&](auto* h) { weight(h)->set_dim(0, int64_t{1} << 40); }, "more than 2147483647"},
      {"product",
       [&](auto* h) {
         for (int i = 0; i < 3; ++i) weight(h)->add_dim(1 << 30);
       },
       "more than 2147483647"},
      {"negative", [&](auto* h) { weight(h)->set_dim(0, -3); }, "negative dimension -3"},
      {"axes",
       [&](auto* h) {
         for (int i = 0; i < 40; ++i) weight(h)->add_dim(1);
       },
       "at most 32 are possible"},
      {"bytes", [&](auto* h) { weight(h)->set_bytes(1); }, "has 1 bytes instead of"},
      {"wrap", [&](auto* h) { weight(h)->set_offset(std::numeric_limits<uint64_t>::max() - 63); },
       "outside"},
      {"behind", [&](auto* h) { weight(h)->set_offset(1 << 20); }, "outside"},
      {"header", [&](auto* h) { weight(h)->set_offset(64); }, "outside"},
      {"unaligned", [&](auto* h) { weight(h)->set_offset(weight(h)->offset() + 4); },
       "not a multiple of 64"},
      {"overlap", [&](auto* h) { weight(h)->set_offset(h->learned(1).offset()); }, "overlap"},
  };
  const std::string bytes = TinyFile();
  for (const Hostile& hostile : headers) {
    SCOPED_TRACE(hostile.name);
    ExpectRefused(Read(WithHeader(bytes, hostile.change)), ErrorCode::kDataLoss, hostile.expect);
  }
}

TEST(CremaFile, HeadersThatDoNotFitTheirNetAreRefused) {
  const std::vector<Hostile> headers = {
      {"missing", [](auto* h) { h->mutable_learned()->RemoveLast(); }, "there is no bias"},
      {"twice", [](auto* h) { h->mutable_learned(1)->set_index(0); }, "appears twice"},
      {"shape",
       [](auto* h) {
         h->mutable_learned(0)->set_dim(0, 18);
         h->mutable_learned(0)->set_dim(1, 3);
       },
       "weight is 18x3, not 3x18"},
      {"more", [](auto* h) { h->mutable_learned(1)->set_name("other"); }, "there is no bias"},
      {"recording", [](auto* h) { h->mutable_recording()->mutable_output()->RemoveLast(); },
       "no recording"},
      {"input", [](auto* h) { h->mutable_recording()->mutable_input(0)->set_name("x"); },
       "does not take what was recorded"},
      {"output", [](auto* h) { h->mutable_recording()->mutable_output(0)->set_name("x"); },
       "no recording of output 'prob'"},
      {"blobs", [](auto* h) { h->mutable_net()->mutable_layer(1)->add_blobs()->add_data(1); },
       "holds parameter blobs"},
      {"file",
       [](auto* h) {
         LayerParameter* layer = h->mutable_net()->mutable_layer(2);
         layer->set_type("InfogainLoss");
         layer->mutable_infogain_loss_param()->set_source("/etc/hostname");
       },
       "a model is one file"},
      // Belongs to a stage that only the net's own state has.
      {"staged",
       [](auto* h) {
         h->mutable_net()->mutable_state()->add_stage("x");
         LayerParameter* layer = h->mutable_net()->add_layer();
         layer->set_type("PixelsToFloat");
         layer->add_bottom("data");
         layer->add_top("raw");
         layer->mutable_transform_param()->set_mean_file("/etc/hostname");
         layer->add_include()->add_stage("x");
       },
       "holds a state"},
      {"data", [](auto* h) { h->mutable_net()->mutable_layer(0)->set_type("Data"); }, ""},
      {"layers", [](auto* h) { h->mutable_net()->add_layers(); }, "old format"},
      {"mean", [](auto* h) { h->mutable_preprocessing()->add_mean(1); }, "the mean has 1 numbers"},
      {"no net", [](auto* h) { h->clear_net(); }, "no layer for phase TEST"},
  };
  const std::string bytes = TinyFile();
  const test::TempDir folder;
  for (const Hostile& hostile : headers) {
    SCOPED_TRACE(hostile.name);
    const std::string path = folder.Write("m.crema", WithHeader(bytes, hostile.change));
    const Refusal refusal = RefusalOf([&] { OpenFile(path); });
    EXPECT_NE(refusal.code, ErrorCode::kInternal) << refusal.message;
    EXPECT_NE(refusal.message.find(hostile.expect), std::string::npos) << refusal.message;
  }
}

// Weights replaced with a valid checksum, or a program that computes incorrectly.
TEST(CremaFile, OtherAnswersThanRecordedAreRefused) {
  const std::string bytes = TinyFile();
  const auto header = ReadCremaFile(bytes, "m.crema");
  std::string changed = bytes;
  const float other = 3;
  std::memcpy(changed.data() + header.learned(0).offset(), &other, sizeof(other));
  const test::TempDir folder;
  const std::string path = folder.Write("m.crema", Sealed(changed));
  ExpectRefused(RefusalOf([&] { OpenFile(path); }), ErrorCode::kDataLoss,
                "does not compute what it was recorded to: output 'prob' differs in 3 of 3 values");
}

TEST(CremaFile, ExportingOverAFileReplacesItWhole) {
  const test::TempDir folder;
  BlobProto gain;
  for (const int64_t dim : {1, 1, 3, 3}) gain.mutable_shape()->add_dim(dim);
  gain.mutable_data()->Resize(9, 1.0F);
  const std::string path = folder.Write("m.crema", "older");
  EXPECT_THROW(ExportModel(ModelOf(kTinyNet), folder.File("no/such/m.crema")), Error);
  const auto refused = ModelOf(StrCat(kTinyNet, R"(
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 } } }
layer { name: "gain" type: "InfogainLoss" bottom: "ip" bottom: "label" top: "loss"
  infogain_loss_param { source: ")",
                                      folder.Write("gain", gain.SerializeAsString()), "\" } }"));
  ExpectRefused(RefusalOf([&] { ExportModel(refused, path); }), ErrorCode::kInvalidArgument,
                "needs the file");
  EXPECT_EQ(folder.Read("m.crema"), "older");
  const auto owner = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(path, owner);
  ExportModel(ModelOf(kTinyNet), path);
  EXPECT_EQ(folder.Read("m.crema"), TinyFile());
  EXPECT_EQ(std::filesystem::status(path).permissions(), owner);
}

}  // namespace
}  // namespace crema
