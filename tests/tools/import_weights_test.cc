// `crema import --weights`, as a user runs it.
#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/state_dict.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "support/torch_files.h"

namespace crema {
namespace {

using test::BytesOf;
using test::ProcessResult;
using test::TempDir;
using test::TorchTensor;

constexpr const char* kImportNet = R"(name: "two"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "ip1"
  inner_product_param { num_output: 2 } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 1 } }
)";

const std::vector<TorchTensor>& Tensors() {
  static const std::vector<TorchTensor> tensors = {
      {.name = "module.0.weight", .shape = {2, 2}, .bytes = BytesOf<float>({1, 2, 3, 4})},
      {.name = "module.0.bias", .shape = {2}, .bytes = BytesOf<float>({5, 6})},
      {.name = "module.2.weight", .shape = {1, 2}, .bytes = BytesOf<float>({7, 8})},
      {.name = "module.2.bias", .shape = {1}, .bytes = BytesOf<float>({9})}};
  return tensors;
}

class ImportWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("deploy.prototxt", kImportNet);
    temp_.Write("m.pth", test::OldTorchFile(Tensors()));
  }
  ProcessResult Run(std::vector<std::string> arguments,
                    const std::string& weights = "m.pth") const {
    arguments.insert(arguments.begin(),
                     {test::Bin("import"), "--weights=" + weights, "--onto=deploy.prototxt"});
    return test::RunProcess(arguments, temp_.path());
  }
  // Expects an error and no new file.
  void ExpectRefusal(const std::vector<std::string>& arguments, const std::string& text,
                     int exit_code = 2) {
    const size_t before = temp_.FileCount();
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
    EXPECT_EQ(temp_.FileCount(), before);
  }
  std::vector<float> Blob(const std::string& file, int layer, int blob) const {
    const NetParameter net = ReadCaffemodel(temp_.File(file));
    const auto& data = net.layer(layer).blobs(blob).data();
    return {data.begin(), data.end()};
  }

  TempDir temp_;
};

TEST_F(ImportWeights, FillsANetAndShowsWhatWentWhere) {
  const ProcessResult result = Run({"-o", "w.caffemodel"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("m.pth, without 'module.' before each name: 4 entries\n"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("0.weight  2x2    ip1    weight     order and shape\n"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(Blob("w.caffemodel", 1, 0), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Blob("w.caffemodel", 2, 1), (std::vector<float>{9}));
}

TEST_F(ImportWeights, TheMapIsPrintedEditedAndRead) {
  const ProcessResult printed = Run({"--print_map"});
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_NE(printed.out.find("0.bias = ip1 bias\n"), std::string::npos) << printed.out;
  std::string map = printed.out;
  map.replace(map.find("0.bias = ip1"), 6, "zeros");
  map += "0.bias = -\n";
  temp_.Write("map", map);
  ASSERT_EQ(Run({"--map=map", "-o", "w.caffemodel"}).exit_code, 0);
  EXPECT_EQ(Blob("w.caffemodel", 1, 1), (std::vector<float>{0, 0}));
  ExpectRefusal({"--print_map", "-o", "x"}, "leave -o out");
  temp_.Write("map", "0.weight -> ip1 weight\n");
  ExpectRefusal({"--map=map", "-o", "x"}, "map:1:1: is no line");
}

TEST_F(ImportWeights, SafetensorsInAndOut) {
  ASSERT_EQ(Run({"-o", "named.safetensors"}).exit_code, 0);
  const auto file = OpenStateDict(temp_.File("named.safetensors"));
  ASSERT_EQ(file->entries().size(), 4U);
  EXPECT_EQ(file->entries()[2].name, "ip2.weight");
  const ProcessResult result = Run({"-o", "w.caffemodel"}, "named.safetensors");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("ip2.weight  1x2    ip2    weight     name\n"), std::string::npos)
      << result.out;
  EXPECT_EQ(Blob("w.caffemodel", 2, 0), (std::vector<float>{7, 8}));
}

TEST_F(ImportWeights, NothingIsWrittenOnFailure) {
  temp_.Write("m.pth", test::OldTorchFile({Tensors()[0], Tensors()[1]}));
  ExpectRefusal({"-o", "w.caffemodel"}, "no entry for 'weight', which is 1x2");
  ExpectRefusal({"-o", "w.caffemodel"}, "--print_map, complete it");
  ExpectRefusal({}, "-o is required");
  ExpectRefusal({"-o", "-"}, "is not the standard output");
  ExpectRefusal({"-o", "w.npz"}, "files of the kind .npz are not");
  ExpectRefusal({"-o", "deploy.prototxt"}, "files of the kind .prototxt are not");
  temp_.Write("m.pth", test::OldTorchFile(Tensors()).substr(0, 700));
  ExpectRefusal({"-o", "w.caffemodel"}, "m.pth", 3);
  temp_.Write("w.caffemodel", "\x01old");
  ExpectRefusal({"-o", "w.caffemodel"}, "m.pth", 3);
  EXPECT_EQ(temp_.Read("w.caffemodel"), "\x01old");
}

TEST_F(ImportWeights, APickleThatRunsSomethingIsRefused) {
  const auto pickle = [](const std::string& code) {
    const std::string whole = test::OldTorchFile({});
    const std::string begin = whole.substr(0, whole.find(test::StateDictPickle({}, true)));
    return begin + "\x80\x02" + code + ".";
  };
  temp_.Write("m.pth",
              pickle("cos\nsystem\nX\x10" + std::string(3, '\0') + "touch was_here; \x85R"));
  ExpectRefusal({"-o", "w.caffemodel"}, "it asks for os.system");
}

TEST_F(ImportWeights, Help) {
  const ProcessResult result = Run({"--help"});
  EXPECT_NE(result.out.find("--onto"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace crema
