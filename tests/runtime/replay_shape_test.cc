// Recordings are compared by shape, not by values alone.
#include <gtest/gtest.h>

#include <string>

#include "crema.pb.h"
#include "runtime/replay.h"
#include "support/net.h"

namespace crema {
namespace {

TEST(Replay, AnotherShapeDoesNotFit) {
  const std::string text = R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
      layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 4 } } }
      layer { name: "f" type: "Filter" bottom: "x" bottom: "s" top: "y" })";
  const NetFile net = ParseNet(text, "net.prototxt");
  NetParameter inputs;
  const auto add = [&](const char* name, std::initializer_list<int64_t> dims,
                       std::initializer_list<float> values) {
    LayerParameter* layer = inputs.add_layer();
    layer->set_name(name);
    BlobProto* blob = layer->add_blobs();
    for (int64_t dim : dims) blob->mutable_shape()->add_dim(dim);
    for (float value : values) blob->add_data(value);
  };
  add("blob:x", {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  add("blob:s", {4}, {1, 0, 1, 0});
  NetParameter recording =
      Record({net, nullptr, ""}, &inputs, test::TestRegistry(), {.gradients = false});
  EXPECT_TRUE(Replay({net, nullptr, ""}, recording, test::TestRegistry(), {}).fits);
  for (LayerParameter& layer : *recording.mutable_layer()) {
    if (layer.name() != "blob:y") continue;
    ASSERT_EQ(layer.blobs(0).data_size(), 6);
    layer.mutable_blobs(0)->mutable_shape()->set_dim(0, 3);
    layer.mutable_blobs(0)->mutable_shape()->set_dim(1, 2);
  }
  const ReplayResult result = Replay({net, nullptr, ""}, recording, test::TestRegistry(), {});
  EXPECT_FALSE(result.fits);
  EXPECT_EQ(result.lines.back().note, "shape 2x3, recorded 3x2");
}

}  // namespace
}  // namespace crema
