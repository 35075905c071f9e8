#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/seal.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

constexpr const char* kOldNet =
    "# LeNet, as of 2014\nname: 'n'\ninput: 'x'\ninput_dim: [1, 2, 3, 4]\n"
    "layers { name: 'r' type: RELU bottom: 'x' top: 'x' }\n";

class Upgrade : public ::testing::Test {
 protected:
  ProcessResult Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), test::Bin("upgrade"));
    return RunProcess(arguments, temp_.path());
  }
  void ExpectRefusal(std::vector<std::string> arguments, const std::string& text,
                     int exit_code = 2) const {
    const ProcessResult result = Run(std::move(arguments));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
    EXPECT_EQ(result.out, "");
  }

  TempDir temp_;
};

TEST_F(Upgrade, TextGoesToStdoutToAFileOrInPlace) {
  temp_.Write("old", kOldNet);
  const ProcessResult printed = Run({"old"});
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_NE(printed.out.find("  type: \"Input\"\n"), std::string::npos) << printed.out;
  EXPECT_NE(printed.err.find("1 comment is lost"), std::string::npos) << printed.err;
  EXPECT_EQ(Run({"old", "-o", "new"}).out, "new: written in the current format\n");
  EXPECT_EQ(temp_.Read("new"), printed.out);
  EXPECT_EQ(temp_.Read("old"), kOldNet);
  EXPECT_EQ(Run({"--in_place", "old"}).exit_code, 0);
  EXPECT_EQ(temp_.Read("old"), printed.out);
  const ProcessResult again = Run({"--in_place", "old"});
  EXPECT_NE(again.err.find("nothing to do"), std::string::npos) << again.err;
  EXPECT_EQ(temp_.Read("old"), printed.out);
  EXPECT_EQ(temp_.FileCount(), 2u);
}

TEST_F(Upgrade, Solvers) {
  temp_.Write("s", "net: 'n' solver_type: ADAM base_lr: 0.1\n");
  EXPECT_EQ(Run({"s"}).out, "base_lr: 0.1\nnet: \"n\"\ntype: \"Adam\"\n");
}

TEST_F(Upgrade, Weights) {
  NetParameter net;
  V1LayerParameter* layer = net.add_layers();
  layer->set_name("ip");
  layer->set_type(V1LayerParameter::INNER_PRODUCT);
  layer->add_blobs()->add_data(1);
  layer->mutable_blobs(0)->set_num(1);
  layer->mutable_blobs(0)->set_channels(1);
  layer->mutable_blobs(0)->set_height(1);
  layer->mutable_blobs(0)->set_width(1);
  temp_.Write("old", net.SerializeAsString());
  ExpectRefusal({"old"}, "give -o OUT or --in_place");
  EXPECT_EQ(Run({"old", "-o", "new", "--dialect=bvlc"}).exit_code, 0);
  EXPECT_EQ(ReadCaffemodel(temp_.File("new")).layer(0).type(), "InnerProduct");
  EXPECT_EQ(Run({"new", "--in_place"}).exit_code, 0);
  EXPECT_EQ(Run({"new", "-o", "newer"}).exit_code, 0);
  EXPECT_EQ(temp_.Read("new"), temp_.Read("newer"));
}

TEST_F(Upgrade, DialectOfCaffeListsAllThatItLacks) {
  temp_.Write("ssd",
              "layers { name: 'p' type: POOLING }\n"
              "layers { name: 'c' type: CONVOLUTION\n convolution_param { engine: MKLDNN } }\n");
  const ProcessResult old = Run({"ssd", "--dialect=bvlc", "-o", "out"});
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_NE(old.err.find("ssd:3:22: layer \"c\": Caffe 1.0 has no value MKLDNN"), std::string::npos)
      << old.err;
  temp_.Write("ssd", "layer { name: 'a' type: 'PriorBox'\n prior_box_param { flip: true } }");
  const ProcessResult result = Run({"ssd", "--dialect=bvlc", "--in_place"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("ssd:1:19"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("ssd:2:2"), std::string::npos) << result.err;
  EXPECT_EQ(Run({"ssd"}).exit_code, 0);
  EXPECT_EQ(temp_.FileCount(), 1u);
}

TEST_F(Upgrade, MistakesAreExplained) {
  temp_.Write("n", kOldNet);
  temp_.Write("broken", "layer { nam: 'a' }");
  temp_.Write("page", "<html></html>");
  ExpectRefusal({}, "name the file");
  ExpectRefusal({"n", "m"}, "the output is -o OUT");
  ExpectRefusal({"n", "-o", "m", "--in_place"}, "not both");
  ExpectRefusal({"n", "--dialect=bvcl"}, "this version has: bvlc");
  ExpectRefusal({"broken"}, "did you mean 'name'?");
  ExpectRefusal({"page"}, "is an HTML page");
  ExpectRefusal({"missing"}, "there is no such file");
  ExpectRefusal({"n", "-o", "no/folder"}, "does not exist", 3);
  EXPECT_NE(Run({"--help"}).out.find("--in_place"), std::string::npos);
}

}  // namespace
}  // namespace crema
