// Reading of ONNX files: limits, damage, and values of tensors.
#include "onnx/model_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "model_builder.h"
#include "support/error_text.h"

namespace crema {
namespace {

using onnx::TensorProto;
using test::Contains;
using test::ErrorOf;
using test::ModelBuilder;
using test::TempDir;

std::string ParseError(const std::string& bytes) {
  return ErrorOf([&] { ParseOnnxModel(bytes, "m.onnx"); });
}

std::string TensorError(const TensorProto& tensor, const std::string& model = "m.onnx") {
  return ErrorOf([&] { ReadOnnxTensor(tensor, model); });
}

TensorProto MakeTensor(int type, const std::vector<int64_t>& dims, const std::string& raw) {
  TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(type);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(raw);
  return tensor;
}

TEST(OnnxModelFile, RefusesOtherFiles) {
  EXPECT_TRUE(Contains(ParseError("layer { name: \"x\" type: \"Input\" top: \"x\" }"), "ONNX"));
  EXPECT_TRUE(Contains(ParseError("\x08\x08\x12\x01"), "is no ONNX model"));
  EXPECT_TRUE(Contains(ParseError(""), "m.onnx"));
}

TEST(OnnxModelFile, RefusesEveryTruncation) {
  ModelBuilder builder;
  builder.Input("x", {1, 2}).Output("y");
  builder.Floats("w", {2}, {1, 2});
  builder.Node("Add", {"x", "w"}, {"y"});
  const std::string bytes = builder.Bytes();
  EXPECT_EQ(ParseError(bytes), "");
  for (size_t size = 0; size + 1 < bytes.size(); ++size) {
    const std::string error = ErrorOf([&] {
      const TempDir folder;
      ImportOnnx(folder.Write("m.onnx", bytes.substr(0, size)), {});
    });
    EXPECT_NE(error, "") << size;
  }
}

// Opening a pipe without a writer would wait for ever.
TEST(OnnxModelFile, RefusesPipesDevicesAndFolders) {
  const TempDir folder;
  const std::string pipe = folder.File("m.onnx");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadOnnxModel(pipe); }), "is a pipe or a device"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadOnnxModel("/dev/zero"); }), "is a pipe or a device"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadOnnxModel(folder.path()); }), "is a folder"));
}

TEST(OnnxModelFile, EscapesNames) {
  ModelBuilder builder;
  builder.Input("x\n", {1}).Output("y\x1b[2J");
  builder.Node("Relu", {"x\n"}, {"y\x1b[2J"}).set_name("n\xff\x01");
  const onnx::ModelProto model = ParseOnnxModel(builder.Bytes(), "m.onnx");
  EXPECT_EQ(model.graph().input(0).name(), "x\\x0a");
  EXPECT_EQ(model.graph().node(0).input(0), "x\\x0a");
  EXPECT_EQ(model.graph().node(0).output(0), "y\\x1b[2J");
  EXPECT_EQ(model.graph().node(0).name(), "n\\xff\\x01");
}

TEST(OnnxModelFile, RefusesUnknownOpsets) {
  EXPECT_TRUE(Contains(ParseError(ModelBuilder(99).Bytes()), "opset 99"));
}

TEST(OnnxModelFile, RefusesLongNamesAndDeepGraphs) {
  ModelBuilder names;
  names.Node("Relu", {"x"}, {std::string(kMostOnnxNameBytes + 1, 'a')});
  EXPECT_TRUE(Contains(ParseError(names.Bytes()), "a name of"));
  ModelBuilder deep;
  onnx::GraphProto* graph = &deep.graph();
  for (int i = 0; i < kMostOnnxDepth + 2; ++i) {
    graph =
        &ModelBuilder::SetGraph(ModelBuilder::AddNode(graph, "If", {"c"}, {"y"}), "then_branch");
  }
  EXPECT_TRUE(Contains(ParseError(deep.Bytes()), "nested deeper"));
}

TEST(OnnxModelFile, SurvivesDeepNestingOfTheFormat) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) {  // graph { node { attribute { g { ...
    std::string wrapped = "\x32";
    uint64_t size = bytes.size();
    while (size >= 128) {
      wrapped += static_cast<char>(size % 128 + 128);
      size /= 128;
    }
    wrapped += static_cast<char>(size);
    if (bytes.size() + wrapped.size() > 20'000) break;
    bytes = wrapped + bytes;
  }
  EXPECT_NE(ParseError("\x3a" + bytes), "");
}

TEST(OnnxModelFile, ReadsAllNumberTypes) {
  const auto floats = [](const TensorProto& tensor) {
    return *ReadOnnxTensor(tensor, "m.onnx").floats;
  };
  const auto ints = [](const TensorProto& tensor) {
    return *ReadOnnxTensor(tensor, "m.onnx").ints;
  };
  using F = std::vector<float>;
  using I = std::vector<int64_t>;
  EXPECT_EQ(floats(MakeTensor(TensorProto::FLOAT16, {2}, std::string("\x00\x3e\x00\xc0", 4))),
            (F{1.5F, -2}));
  EXPECT_EQ(floats(MakeTensor(TensorProto::FLOAT16, {1}, std::string("\x01\x00", 2))),
            (F{0x1p-24F}));
  EXPECT_EQ(floats(MakeTensor(TensorProto::BFLOAT16, {1}, std::string("\xc0\x3f", 2))), (F{1.5F}));
  const double pi = 3.25;
  EXPECT_EQ(floats(MakeTensor(TensorProto::DOUBLE, {},
                              std::string(reinterpret_cast<const char*>(&pi), 8))),
            (F{3.25F}));
  EXPECT_EQ(ints(MakeTensor(TensorProto::INT8, {2}, "\xff\x05")), (I{-1, 5}));
  EXPECT_EQ(ints(MakeTensor(TensorProto::UINT8, {1}, "\xff")), (I{255}));
  EXPECT_EQ(ints(MakeTensor(TensorProto::BOOL, {2}, std::string("\x02\x00", 2))), (I{1, 0}));
  EXPECT_EQ(ints(MakeTensor(TensorProto::INT32, {1}, "\xfe\xff\xff\xff")), (I{-2}));
  TensorProto typed = MakeTensor(TensorProto::UINT64, {1}, "");
  typed.clear_raw_data();
  typed.add_uint64_data(7);
  EXPECT_EQ(ints(typed), (I{7}));
}

TEST(OnnxModelFile, ChecksSizesAgainstBytes) {
  EXPECT_TRUE(Contains(TensorError(MakeTensor(TensorProto::FLOAT, {2}, "1234")), "needs 8 bytes"));
  EXPECT_TRUE(Contains(TensorError(MakeTensor(TensorProto::FLOAT, {1 << 30, 1 << 30, 1 << 30}, "")),
                       "invalid shape"));
  EXPECT_TRUE(Contains(TensorError(MakeTensor(TensorProto::FLOAT, {-4}, "")), "invalid shape"));
  EXPECT_TRUE(Contains(TensorError(MakeTensor(TensorProto::FLOAT, {1 << 30}, "")), "damaged"));
  EXPECT_TRUE(Contains(
      TensorError(MakeTensor(TensorProto::FLOAT, std::vector<int64_t>(40, 1), "1234")), "40 axes"));
}

TEST(OnnxModelFile, RefusesTypesByName) {
  EXPECT_TRUE(Contains(TensorError(MakeTensor(TensorProto::INT4, {2}, "1")), "int4"));
  EXPECT_TRUE(Contains(TensorError(MakeTensor(TensorProto::STRING, {1}, "1")), "string"));
  EXPECT_TRUE(Contains(TensorError(MakeTensor(77, {1}, "1")), "type 77"));
}

TensorProto External(const std::string& location, const std::string& offset = "4") {
  TensorProto tensor = MakeTensor(TensorProto::FLOAT, {1}, "");
  tensor.clear_raw_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", "4");
  return tensor;
}

TEST(OnnxModelFile, ReadsExternalData) {
  const TempDir folder;
  const float values[] = {1, 2.5F};
  folder.Write("w.bin", std::string(reinterpret_cast<const char*>(values), 8));
  EXPECT_EQ(*ReadOnnxTensor(External("w.bin"), folder.File("m.onnx")).floats,
            std::vector<float>{2.5F});
}

TEST(OnnxModelFile, KeepsExternalDataInTheFolder) {
  const TempDir outside;
  outside.Write("w.bin", "12345678");
  const TempDir folder;
  const std::string model = folder.File("m.onnx");
  std::filesystem::create_symlink(outside.File("w.bin"), folder.File("link.bin"));
  EXPECT_TRUE(Contains(TensorError(External(outside.File("w.bin")), model), "absolute path"));
  EXPECT_TRUE(Contains(TensorError(External("../w.bin"), model), "leaves the folder"));
  EXPECT_TRUE(Contains(TensorError(External("a/../../w.bin"), model), "leaves the folder"));
  EXPECT_TRUE(Contains(TensorError(External("link.bin"), model), "link out of the folder"));
  EXPECT_TRUE(Contains(TensorError(External(""), model), "no file name"));
  EXPECT_TRUE(Contains(TensorError(External("none.bin"), model), "none.bin"));
  folder.Write("w.bin", "12345");
  EXPECT_TRUE(Contains(TensorError(External("w.bin"), model), "which has 5"));
  EXPECT_TRUE(Contains(TensorError(External("w.bin", "-1"), model), "offset '-1'"));
  EXPECT_TRUE(Contains(TensorError(External("w.bin", "99999999999999999"), model), "which has 5"));
}

TEST(OnnxModelFile, ReadsSparseTensors) {
  onnx::SparseTensorProto sparse;
  *sparse.mutable_values() = MakeTensor(TensorProto::FLOAT, {2}, "");
  sparse.mutable_values()->clear_raw_data();
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_values()->add_float_data(6);
  *sparse.mutable_indices() = MakeTensor(TensorProto::INT64, {2}, "");
  sparse.mutable_indices()->clear_raw_data();
  sparse.mutable_indices()->add_int64_data(1);
  sparse.mutable_indices()->add_int64_data(3);
  sparse.add_dims(2);
  sparse.add_dims(2);
  EXPECT_EQ(*ReadOnnxSparse(sparse, "m.onnx").floats, (std::vector<float>{0, 5, 0, 6}));
  sparse.mutable_indices()->set_int64_data(1, 4);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadOnnxSparse(sparse, "m.onnx"); }), "outside"));
}

}  // namespace
}  // namespace crema
