#include "runtime/weights.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::PlanText;
using test::ValuesOf;

std::string ProductNet(int outputs, const std::string& name = "ip") {
  return "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 3 } } "
         "}\n"
         "layer { name: \"" +
         name +
         "\" type: \"InnerProduct\" bottom: \"x\" top: \"y\"\n  inner_product_param { "
         "num_output: " +
         std::to_string(outputs) + " weight_filler { type: \"xavier\" } } }\n";
}

std::string LoadError(const std::string& net, const NetParameter& model, MissingLayers missing) {
  const auto plan = PlanText(net);
  const auto weights = Weights::Make(*plan, 1);
  const std::vector<float> before = ValuesOf(std::as_const(*weights).blob(0));
  try {
    weights->Load(*plan, model, "m.caffemodel", missing);
  } catch (const Error& error) {
    EXPECT_EQ(ValuesOf(std::as_const(*weights).blob(0)), before) << "a failed load changed weights";
    return error.what();
  }
  return "";
}

NetParameter DrawnModel(const std::string& net, uint64_t seed) {
  const auto plan = PlanText(net);
  return Weights::Make(*plan, seed)->Export(*plan);
}

TEST(Weights, ExportAndLoadRoundTrip) {
  const auto plan = PlanText(ProductNet(4));
  const NetParameter model = DrawnModel(ProductNet(4), 5);
  const auto weights = Weights::Make(*plan, 6);
  const auto original = Weights::Make(*plan, 5);
  const LoadReport report = weights->Load(*plan, model, "m", MissingLayers::kError);
  EXPECT_EQ(report.loaded, std::vector<std::string>{"ip"});
  for (size_t s = 0; s < weights->size(); ++s) {
    EXPECT_EQ(ValuesOf(std::as_const(*weights).blob(s)),
              ValuesOf(std::as_const(*original).blob(s)));
  }
}

TEST(Weights, AnotherShapeSaysBothAndWhatToDo) {
  const std::string error =
      LoadError(ProductNet(4), DrawnModel(ProductNet(5), 1), MissingLayers::kKeep);
  EXPECT_NE(error.find("m.caffemodel: layer \"ip\": blob 0 (weight) is 5x3 in the file, but 4x3 in "
                       "the net"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("another name"), std::string::npos) << error;
}

TEST(Weights, MissingLayerIsAnErrorOrKeptAsAsked) {
  const NetParameter model = DrawnModel(ProductNet(4, "ip_one"), 1);
  const std::string error = LoadError(ProductNet(4, "ip_0ne"), model, MissingLayers::kError);
  EXPECT_NE(error.find("the file has no blobs for this layer (did you mean 'ip_one'?)"),
            std::string::npos)
      << error;
  const std::string other = LoadError(
      ProductNet(4, "ip_0ne"), DrawnModel(ProductNet(5, "ip_one"), 1), MissingLayers::kError);
  EXPECT_EQ(other.find("ip_one"), std::string::npos) << "its shapes differ: " << other;
  const auto plan = PlanText(ProductNet(4, "ip_0ne"));
  const LoadReport report = Weights::Make(*plan, 1)->Load(*plan, model, "m", MissingLayers::kKeep);
  EXPECT_EQ(report.at_fillers, std::vector<std::string>{"ip_0ne"});
  EXPECT_EQ(report.not_in_net, std::vector<std::string>{"ip_one"});
}

TEST(Weights, WrongNumberOfBlobs) {
  NetParameter model = DrawnModel(ProductNet(4), 1);
  model.mutable_layer(1)->mutable_blobs()->RemoveLast();
  const std::string error = LoadError(ProductNet(4), model, MissingLayers::kKeep);
  EXPECT_NE(error.find("has 1 blobs for this layer, the net has 2 (weight, bias)"),
            std::string::npos)
      << error;
}

TEST(Weights, LegacyShapesAreTaken) {
  NetParameter model = DrawnModel(ProductNet(4), 3);
  BlobProto* weight = model.mutable_layer(1)->mutable_blobs(0);
  weight->clear_shape();
  weight->set_num(1);
  weight->set_channels(1);
  weight->set_height(4);
  weight->set_width(3);
  EXPECT_EQ(LoadError(ProductNet(4), model, MissingLayers::kError), "");
}

TEST(Weights, SharedBlobsHaveOneMemory) {
  const auto plan = PlanText(
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 4 } } }\n"
      "layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\" top: \"a\" param { name: \"w\" }\n"
      "  inner_product_param { num_output: 4 bias_term: false } }\n"
      "layer { name: \"b\" type: \"InnerProduct\" bottom: \"a\" top: \"b\" param { name: \"w\" }\n"
      "  inner_product_param { num_output: 4 bias_term: false } }\n");
  const auto weights = Weights::Make(*plan, 1);
  EXPECT_EQ(weights->blob(0).raw(), weights->blob(1).raw());
  EXPECT_EQ(plan->ParameterCount(), 16);
  const NetParameter model = weights->Export(*plan);
  EXPECT_EQ(model.layer(2).blobs_size(), 1);  // every layer writes its own copy
}

TEST(Weights, SharedBlobsComeBackFromHdf5) {
#ifndef CREMA_HAVE_HDF5
  GTEST_SKIP() << "this build has no HDF5";
#else
  const auto plan = PlanText(
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 4 } } }\n"
      "layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\" top: \"a\" param { name: \"w\" }\n"
      "  inner_product_param { num_output: 4 bias_term: false weight_filler { type: \"xavier\" } } "
      "}\n"
      "layer { name: \"b\" type: \"InnerProduct\" bottom: \"a\" top: \"b\" param { name: \"w\" }\n"
      "  inner_product_param { num_output: 4 bias_term: false } }\n");
  const auto weights = Weights::Make(*plan, 1);
  const test::TempDir temp;
  WriteCaffemodelHdf5(weights->Export(*plan), temp.File("m.caffemodel.h5"));
  const auto loaded = Weights::Make(*plan, 2);
  loaded->Load(*plan, ReadCaffemodel(temp.File("m.caffemodel.h5")), "m", MissingLayers::kError);
  EXPECT_EQ(ValuesOf(std::as_const(*loaded).blob(1)), ValuesOf(std::as_const(*weights).blob(0)));
#endif
}

TEST(Weights, ATestNetSeesWhatTheTrainingNetLearns) {
  const auto train = PlanText(ProductNet(4));
  const auto weights = Weights::Make(*train, 1);
  const auto test = PlanText(ProductNet(4), TEST, {.backward = false});
  const auto shared = Weights::ShareWith(*test, *weights, 2);
  EXPECT_EQ(shared->blob(0).raw(), weights->blob(0).raw());
}

TEST(Weights, FillersLeaveAloneWhatWasLoaded) {
  const std::string second =
      "layer { name: \"z\" type: \"InnerProduct\" bottom: \"y\" top: \"z\"\n"
      "  inner_product_param { num_output: 2 weight_filler { type: \"xavier\" } } }\n";
  const auto plan = PlanText(ProductNet(4) + second);
  const auto weights = Weights::MakeToLoad(*plan, 9);
  const size_t of_z = 2;  // after weight and bias of ip
  EXPECT_EQ(ValuesOf(std::as_const(*weights).blob(of_z)), std::vector<float>(8, 0.F));
  weights->Load(*plan, DrawnModel(ProductNet(4), 5), "m", MissingLayers::kKeep);
  weights->FillRest(*plan);
  EXPECT_EQ(ValuesOf(std::as_const(*weights).blob(0)),
            ValuesOf(std::as_const(*Weights::Make(*plan, 5)).blob(0)));
  EXPECT_EQ(ValuesOf(std::as_const(*weights).blob(of_z)),
            ValuesOf(std::as_const(*Weights::Make(*plan, 9)).blob(of_z)));
}

TEST(Weights, FillersDoNotDependOnOtherLayers) {
  const auto alone = PlanText(ProductNet(4));
  const auto more = PlanText(ProductNet(4) +
                             "layer { name: \"z\" type: \"InnerProduct\" bottom: \"y\" top: \"z\"\n"
                             "  inner_product_param { num_output: 2 } }\n");
  EXPECT_EQ(ValuesOf(std::as_const(*Weights::Make(*alone, 9)).blob(0)),
            ValuesOf(std::as_const(*Weights::Make(*more, 9)).blob(0)));
}

}  // namespace
}  // namespace crema
