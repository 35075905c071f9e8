// Nets with an input of bytes, in plans that expose every blob.
#include <gtest/gtest.h>

#include <string>

#include "crema.pb.h"
#include "inference/image_model.h"
#include "runtime/replay.h"
#include "solvers/test_net.h"
#include "support/net.h"

namespace crema {
namespace {

constexpr const char* kBytesNet = R"(
    layer { name: "x" type: "Input" top: "x" top: "t" pipeline_param { output: U8 }
            input_param { shape { dim: 2 dim: 4 dim: 5 dim: 3 } shape { dim: 2 } } }
    layer { name: "f" type: "PixelsToFloat" bottom: "x" top: "f"
            transform_param { mean_value: 7 scale: 0.1 } }
    layer { name: "ip" type: "InnerProduct" bottom: "f" top: "ip"
            inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "t" top: "loss" })";

BlobProto* FindBlob(NetParameter* recording, const std::string& name) {
  for (LayerParameter& layer : *recording->mutable_layer()) {
    if (layer.name() == name) return layer.mutable_blobs(0);
  }
  return nullptr;
}

TEST(Bytes, RecordingsHoldThemAsNumbers) {
  const NetFile net = ParseNet(kBytesNet, "net.prototxt");
  NetParameter inputs;
  LayerParameter* labels = inputs.add_layer();
  labels->set_name("blob:t");
  labels->add_blobs()->mutable_shape()->add_dim(2);
  labels->mutable_blobs(0)->add_data(1);
  labels->mutable_blobs(0)->add_data(2);
  const ReplayNet replayed{net, nullptr, ""};
  NetParameter recording = Record(replayed, &inputs, test::TestRegistry(), {});
  BlobProto* pixels = FindBlob(&recording, "blob:x");
  ASSERT_NE(pixels, nullptr);
  ASSERT_EQ(pixels->data_size(), 2 * 4 * 5 * 3);
  const float pixel = pixels->data(0);
  EXPECT_NEAR(FindBlob(&recording, "blob:f")->data(0), (pixel - 7) * 0.1F, 1e-5);
  const ReplayResult result = Replay(replayed, recording, test::TestRegistry(), {});
  EXPECT_TRUE(result.fits) << result.lines.back().what << " " << result.lines.back().note;
  for (const float wrong : {256.0F, -1.0F, 3.5F}) {
    pixels->set_data(0, wrong);
    try {
      Replay(replayed, recording, test::TestRegistry(), {});
      ADD_FAILURE() << wrong << " is no byte";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("not bytes (integers from 0 to 255)"),
                std::string::npos)
          << error.what();
    }
  }
}

// A top without readers is an output of the net.
TEST(Bytes, OutputsAreTheirValues) {
  const auto plan = test::PlanText(
      "layer { name: 'x' type: 'Input' top: 'x' pipeline_param { output: U8 } input_param { shape "
      "{ dim: 3 } } }");
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  session.MutableData("x").span<uint8_t>()[1] = 200;
  session.Forward();
  const std::vector<OutputValue> values = OutputsOf(session);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].value, 0);
  EXPECT_EQ(values[1].value, 200);
}

TEST(Bytes, ProgramsThatFeedNumbersRefuseThem) {
  const NetFile net = ParseNet(
      "layer { name: 'x' type: 'Input' top: 'x' pipeline_param { output: U8 } input_param { shape "
      "{ dim: 1 dim: 4 dim: 5 dim: 3 } } }"
      "layer { name: 'f' type: 'PixelsToFloat' bottom: 'x' top: 'f' }",
      "deploy.prototxt");
  const auto model = Model::Make(net, {}, {}, {}, test::TestRegistry(), NullSink());
  try {
    const ImageModel images(model, "classification");
    ADD_FAILURE() << "images are handed over as numbers";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("input 'x' holds bytes"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace crema
