#include "format/stock_caffe.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/prototxt.h"

namespace crema {
namespace {

std::vector<std::string> NotStock(const std::string& text) {
  const NetFile file = ParseNet(text, "n");
  std::vector<std::string> found;
  for (const Problem& problem : FindNotStock(file.net, file.source)) {
    found.push_back(ToString(problem));
  }
  return found;
}

TEST(StockCaffe, HasFiftyNineTypes) {
  int old_types = 0;
  const auto* types = V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < types->value_count(); ++i) {
    const NetFile file = ParseNet("layers { type: " + types->value(i)->name() + " }", "n");
    old_types += IsStockLayerType(file.net.layer(0).type()) ? 1 : 0;
  }
  EXPECT_EQ(old_types, types->value_count() - 1);  // all but NONE
  for (const char* type : {"BatchNorm", "LSTMUnit", "Python", "Im2col"}) {
    EXPECT_TRUE(IsStockLayerType(type)) << type;
  }
  for (const char* type :
       {"", "PriorBox", "BN", "relu", "Recurrent", "GroupNorm", "Clip", "Swish"}) {
    EXPECT_FALSE(IsStockLayerType(type)) << type;
  }
}

TEST(StockCaffe, HasTheOldFormatsWhole) {
  for (const auto* message : {V0LayerParameter::descriptor(), V1LayerParameter::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      EXPECT_TRUE(IsStockField(*message->field(i))) << message->field(i)->full_name();
    }
  }
}

TEST(StockCaffe, NothingIsFoundInItsOwnNets) {
  EXPECT_TRUE(NotStock("name: 'n' layers { name: 'c' type: CONVOLUTION bottom: 'x' top: 'c'"
                       " blobs_lr: 1 blobs { num: 1 data: 1 }"
                       " convolution_param { num_output: 1 kernel_size: 1 engine: CUDNN } }"
                       "layers { name: 'p' type: POOLING pooling_param { pool: STOCHASTIC } }")
                  .empty());
}

// After the tag 1.0, in 2018.
TEST(StockCaffe, LaterFieldsAreNotOfItsFirstVersion) {
  EXPECT_EQ(NotStock("layer { name: 'p' type: 'Pooling'\n pooling_param { round_mode: FLOOR } }"),
            std::vector<std::string>{
                "n:2:18: layer \"p\": Caffe 1.0 has no field 'round_mode' in PoolingParameter"});
}

TEST(StockCaffe, EachFieldValueAndTypeIsListedWithItsLine) {
  EXPECT_EQ(NotStock("layer { name: 'a' type: 'PriorBox'\n prior_box_param { flip: true } }\n"
                     "layer { name: 'b' type: 'Convolution'\n convolution_param {\n"
                     "  engine: MKLDNN } }\n"
                     "layer { name: 'c' type: 'ReLU'\n"
                     " include { phase: TEST } }"),
            (std::vector<std::string>{
                "n:1:19: layer \"a\": Caffe 1.0 has no layer type 'PriorBox'",
                "n:2:2: layer \"a\": Caffe 1.0 has no field 'prior_box_param' in LayerParameter",
                "n:5:3: layer \"b\": Caffe 1.0 has no value MKLDNN for 'engine'"}));
}

TEST(StockCaffe, LayersAreDescribedInOneSentence) {
  NetParameter net;
  EXPECT_EQ(DescribeLayersNotStock(net), "");
  for (int i = 0; i < 25; ++i) {
    net.add_layer()->set_name("l" + std::to_string(i));
    net.mutable_layer(i)->set_type(i == 0 ? "ReLU" : "GroupNorm");
  }
  const std::string text = DescribeLayersNotStock(net);
  EXPECT_NE(text.find(": \"l1\" (GroupNorm), \"l2\""), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\"l20\" (GroupNorm) and 4 more")) << text;
}

}  // namespace
}  // namespace crema
