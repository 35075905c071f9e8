// A LeNet that somebody trained in 2016 with a tool of that time, on dark digits on white paper.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "runtime/evaluate.h"
#include "runtime/replay.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

class Mnist2016 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(model_)) GTEST_SKIP() << "models/mnist-2016 is not there";
  }
  std::string Model(const char* name) const { return (model_ / name).string(); }

  const fs::path shared_ = fs::path(CREMA_SOURCE_DIR).parent_path() / "shared";
  const fs::path model_ = shared_ / "models" / "mnist-2016";
};

TEST_F(Mnist2016, RecordedOutputsAreReproduced) {
  const NetFile net = ReadNet(Model("deploy.prototxt"));
  const std::string weights_file = Model("snapshot_iter_28140.caffemodel");
  const NetParameter weights = ReadCaffemodel(weights_file);
  const NetParameter golden = ReadNetBinary(Model("golden.binaryproto"));
  for (const bool optimize : {false, true}) {
    const ReplayResult result = Replay({net, &weights, weights_file}, golden, test::TestRegistry(),
                                       {.rtol = 0, .atol = 1e-5, .optimize = optimize});
    EXPECT_GE(result.lines.size(), 1U);
    EXPECT_TRUE(result.fits) << result.lines.back().what << " differs by "
                             << result.lines.back().max_absolute;
  }
}

TEST_F(Mnist2016, AccuracyOnTheTestImages) {
  const fs::path mnist = shared_ / "data" / "mnist";
  if (!fs::exists(mnist)) GTEST_SKIP() << "data/mnist is not there";
  const test::TempDir temp;
  const test::ProcessResult converted =
      test::RunProcess({test::Bin("convert_mnist"), (mnist / "t10k-images-idx3-ubyte.gz").string(),
                        (mnist / "t10k-labels-idx1-ubyte.gz").string(), temp.File("test_lmdb")});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  // 255 - v - mean is (v - (255 - mean)) * -1: a mean of its own and a scale.
  BlobProto mean = ReadBlobProtoFile(Model("mean.binaryproto"));
  for (float& value : *mean.mutable_data()) value = 255 - value;
  temp.Write("mean.binaryproto", mean.SerializeAsString());

  NetFile net = ReadNet(Model("deploy.prototxt"));
  LayerParameter* data = net.net.mutable_layer(0);
  ASSERT_EQ(data->type(), "Input");
  data->clear_input_param();
  data->set_type("Data");
  data->add_top("label");
  data->mutable_data_param()->set_source(temp.File("test_lmdb"));
  data->mutable_data_param()->set_batch_size(100);
  data->mutable_transform_param()->set_scale(-1);
  data->mutable_transform_param()->set_mean_file(temp.File("mean.binaryproto"));
  LayerParameter* accuracy = net.net.add_layer();
  accuracy->set_name("accuracy");
  accuracy->set_type("Accuracy");
  accuracy->add_bottom("softmax");
  accuracy->add_bottom("label");
  accuracy->add_top("accuracy");

  const std::string weights_file = Model("snapshot_iter_28140.caffemodel");
  const Evaluation result =
      Evaluate(net, ReadCaffemodel(weights_file), weights_file, test::TestRegistry(), {});
  EXPECT_EQ(result.samples, 10000);
  ASSERT_EQ(result.outputs.size(), 1U);
  EXPECT_NEAR(result.outputs[0].mean, 0.9921, 1e-6);
}

}  // namespace
}  // namespace crema
