#include "format/upgrade_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::ErrorOf;
using test::TempDir;

constexpr const char* kOldNet =
    "# a comment\nname: 'n' # and \"another\"\n"
    "input: 'x' input_dim: [1, 2, 3, 4]\n"
    "layers { name: 'r # no comment' type: RELU bottom: 'x' top: 'x' blobs_lr: 0.1 }\n";

TEST(UpgradeFile, NetText) {
  const TempDir folder;
  const UpgradedFile file = ReadUpgraded(folder.Write("n", kOldNet));
  EXPECT_TRUE(file.changed);
  EXPECT_EQ(file.lost_comments, 2);
  EXPECT_EQ(file.text,
            "name: \"n\"\nlayer {\n  name: \"input\"\n  type: \"Input\"\n  top: \"x\"\n"
            "  input_param {\n    shape {\n      dim: 1\n      dim: 2\n      dim: 3\n      dim: 4\n"
            "    }\n  }\n}\nlayer {\n  name: \"r # no comment\"\n  type: \"ReLU\"\n"
            "  bottom: \"x\"\n  top: \"x\"\n  param {\n    lr_mult: 0.1\n  }\n}\n");
  const UpgradedFile again = ReadUpgraded(folder.Write("again", file.text));
  EXPECT_FALSE(again.changed);
  EXPECT_EQ(again.text, file.text);
}

TEST(UpgradeFile, TextOfThePresentFormatStaysAsItIs) {
  const TempDir folder;
  const std::string text = "name: 'n'   # spaces and all\nlayer { name: 'a' type: 'ReLU' }";
  const UpgradedFile file = ReadUpgraded(folder.Write("n", text));
  EXPECT_FALSE(file.changed);
  EXPECT_EQ(file.lost_comments, 0);
  EXPECT_EQ(file.text, text);
}

TEST(UpgradeFile, SolverWithItsNets) {
  const TempDir folder;
  const UpgradedFile file = ReadUpgraded(folder.Write(
      "s",
      "base_lr: 0.01\nsolver_type: ADAGRAD\ntrain_net_param {\n layers { name: 'a'\n type: RELU }\n"
      "}\ntest_net_param { input: 'x' input_shape { dim: 1 }\n layer { name: 'b'\n"
      "  type: 'PriorBox' } }\n"));
  EXPECT_EQ(file.kind, UpgradedFile::Kind::kSolverText);
  EXPECT_EQ(file.solver.type(), "AdaGrad");
  EXPECT_EQ(file.solver.train_net_param().layer(0).type(), "ReLU");
  EXPECT_EQ(file.solver.test_net_param(0).layer(0).type(), "Input");
  EXPECT_EQ(file.source.Locate("train_net_param.layer[0].type").line, 5);
  const std::vector<Problem> problems = FindNotStock(file);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].where.line, 9);
  EXPECT_EQ(problems[0].where.layer, "b");
  EXPECT_FALSE(ReadUpgraded(folder.Write("again", file.text)).changed);
}

NetParameter OldModel() {
  NetParameter net;
  V1LayerParameter* layer = net.add_layers();
  layer->set_name("ip");
  layer->set_type(V1LayerParameter::INNER_PRODUCT);
  BlobProto* blob = layer->add_blobs();
  blob->mutable_shape()->add_dim(2);
  blob->set_raw_data_type(FLOAT16);
  blob->set_raw_data(std::string("\x00\x3C\x00\xC0", 4));  // 1, -2
  return net;
}

TEST(UpgradeFile, BinaryWithRawArrays) {
  const TempDir folder;
  const std::string path = folder.Write("m", OldModel().SerializeAsString());
  const UpgradedFile file = ReadUpgraded(path);
  EXPECT_EQ(file.kind, UpgradedFile::Kind::kNetBinary);
  const BlobProto& blob = file.net.layer(0).blobs(0);
  EXPECT_EQ(PrintText(blob), "data: 1\ndata: -2\nshape {\n  dim: 2\n}\n");
  EXPECT_TRUE(FindNotStock(file).empty());
  WriteUpgraded(file, path);
  const std::string once = folder.Read("m");
  WriteUpgraded(ReadUpgraded(path), path);
  EXPECT_EQ(folder.Read("m"), once);
  EXPECT_EQ(ReadCaffemodel(path).layer(0).type(), "InnerProduct");
}

TEST(UpgradeFile, LinksAndModesStay) {
  const TempDir folder;
  const std::string target = folder.Write("target", kOldNet);
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("target", folder.File("link"));
  WriteUpgraded(ReadUpgraded(folder.File("link")), folder.File("link"));
  EXPECT_TRUE(fs::is_symlink(folder.File("link")));
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(Contains(folder.Read("target"), "layer {"));
  EXPECT_EQ(folder.FileCount(), 2u);
}

TEST(UpgradeFile, WrongFilesAreNamed) {
  const TempDir folder;
  const auto error = [&](const std::string& bytes) {
    return ErrorOf([&] { ReadUpgraded(folder.Write("f", bytes)); });
  };
  EXPECT_TRUE(Contains(error("<html>"), "is an HTML page"));
  EXPECT_TRUE(Contains(error(""), "is empty"));
  EXPECT_TRUE(Contains(error("layer { typ: 'ReLU' }"), "did you mean 'type'?"));
  EXPECT_TRUE(Contains(error("base_lr: 1 lr_polcy: 'fixed'"), "did you mean 'lr_policy'?"));
  EXPECT_TRUE(Contains(error("\x89HDF\r\n\x1A\n" + std::string(90, '\0')), "nothing to upgrade"));
  EXPECT_TRUE(Contains(error(std::string(90, '\1')), "is not a weights file"));
}

}  // namespace
}  // namespace crema
