// Layers that read data sets, and the inputs that replace them.
#include "graph/replace_sources.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

// The types that read data sets, each with a text that names one of 5 images of 8 x 8.
const std::map<std::string, std::string>& Types() {
  static const std::string records =
      "data_param { source: 'no/such' batch_size: 5 } transform_param { crop_size: 8 }";
  static const std::map<std::string, std::string> types = {
      {"AnnotatedData", records},
      {"Data", records},
      {"HDF5Data", "hdf5_data_param { source: 'no/such' batch_size: 5 }"},
      {"HDF5SequenceData", "hdf5_data_param { source: 'no/such' batch_size: 5 }"},
      {"ImageData",
       "image_data_param { source: 'no/such' batch_size: 5 new_height: 8 new_width: 8 }"},
      {"VideoData", records},
      {"WindowData", "window_data_param { source: 'no/such' batch_size: 5 crop_size: 8 }"}};
  return types;
}

LayerParameter Replaced(const std::string& type, const std::string& fields,
                        const Registry& registry) {
  NetParameter net =
      ParseNet(StrCat("layer { name: 'd' type: '", type, "' top: 'x' top: 'l' ", fields, " }"),
               "net.prototxt")
          .net;
  SourceShapes shapes;
  if (type.starts_with("HDF5")) shapes.given = {{"x", {5, 3, 8, 8}}};  // its text does not say
  ReplaceSources(shapes, registry, &net);
  return net.layer(0);
}

TEST(ReplaceSources, KnowsEachTypeThatReadsADataSet) {
  for (const std::string& name : test::TestRegistry().Names()) {
    EXPECT_EQ(ReadsDataSet(*test::TestRegistry().Find(name)), Types().contains(name)) << name;
  }
}

TEST(ReplaceSources, MakesInputsOfTheSameShapesInBuildsThatLackTheTypeToo) {
  const LayerType& input = *test::TestRegistry().Find("Input");
  for (const auto& [type, fields] : Types()) {
    for (const Registry& registry : {test::TestRegistry(), Registry()}) {
      const LayerParameter layer = Replaced(type, fields, registry);
      ASSERT_EQ(layer.type(), "Input") << type;
      EXPECT_EQ(PrintText(layer.input_param().shape(0)), "dim: 5\ndim: 3\ndim: 8\ndim: 8\n");
      EXPECT_EQ(PrintText(layer.input_param().shape(1)),
                type == "AnnotatedData" ? "dim: 1\ndim: 1\ndim: 5\ndim: 8\n" : "dim: 5\n");
      EXPECT_EQ(ReadAheadDepth(input, layer), layer.data_param().prefetch()) << type;
    }
  }
}

TEST(ReplaceSources, LeavesOtherTypes) {
  const std::string fields = Types().at("Data");
  for (const std::string type : {"Dta", "DummyData", "Python", "Input"}) {
    EXPECT_EQ(Replaced(type, fields, test::TestRegistry()).type(), type);
  }
}

TEST(ReplaceSources, SetsTheBatchOfLayersThatTheProgramFeeds) {
  const std::string text = "type: 'MemoryData' top: 'x' memory_data_param { batch_size: 5 }";
  NetParameter net = ParseNet(StrCat("layer { name: 'd' ", text, " }"), "net.prototxt").net;
  ReplaceSources({.given = {}, .batch = 2}, test::TestRegistry(), &net);
  EXPECT_EQ(net.layer(0).memory_data_param().batch_size(), 2U);
  // As the Input of the Python package, which carries a batch size there.
  LayerType input = *test::TestRegistry().Find("Input");
  input.param_fields.push_back("memory_data_param");
  EXPECT_FALSE(ReadsDataSet(input));
}

TEST(ReplaceSources, OnlyLayersOfDataReadAhead) {
  const LayerParameter layer =
      ParseNet("layer { name: 'd' type: 'Data' pipeline_param { prefetch: 7 } }", "net.prototxt")
          .net.layer(0);
  const auto depth = [](const std::string& type, const LayerParameter& of) {
    return ReadAheadDepth(*test::TestRegistry().Find(type), of);
  };
  EXPECT_EQ(depth("Data", layer), 7U);
  EXPECT_EQ(depth("Data", {}), LayerParameter().data_param().prefetch());
  EXPECT_EQ(depth("Input", layer), 7U);
  EXPECT_EQ(depth("Input", {}), 0U);
  EXPECT_EQ(depth("ReLU", layer), 0U);
}

}  // namespace
}  // namespace crema
