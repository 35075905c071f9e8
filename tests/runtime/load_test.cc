// Weights that do not fit, or only in part.
#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::ErrorOf;
using test::PlanText;
using test::ValuesOf;

class LogText final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    (severity == Severity::kWarning ? warnings : infos) += std::string(message) + "\n";
  }
  std::string infos;
  std::string warnings;
};

// A chain of inner products, named and sized as asked; the input has three values.
std::string ChainNet(const std::vector<std::pair<std::string, int>>& layers,
                     const std::string& type = "InnerProduct") {
  std::string text =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n";
  std::string bottom = "x";
  for (const auto& [name, outputs] : layers) {
    text += "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
            name + "' inner_product_param { num_output: " + std::to_string(outputs) +
            " weight_filler { type: 'xavier' } } }\n";
    bottom = name;
  }
  return text;
}

NetParameter SavedModel(const std::string& net, uint64_t seed) {
  const auto plan = PlanText(net);
  return Weights::Make(*plan, seed)->Export(*plan);
}

// One net and its weights, to be loaded into.
struct Target {
  explicit Target(const std::string& net) : plan(PlanText(net)), weights(Weights::Make(*plan, 1)) {}

  LoadReport Load(const NetParameter& model, OnMismatch on_mismatch,
                  MissingLayers missing = MissingLayers::kKeep) const {
    return weights->Load(*plan, model, "m", missing, on_mismatch);
  }
  std::vector<float> Values(size_t slot) const {
    return ValuesOf(std::as_const(*weights).blob(slot));
  }

  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Weights> weights;
};

TEST(Load, SkippedLayersKeepTheirValues) {
  const Target target(ChainNet({{"a", 4}, {"b", 5}}));
  const std::vector<float> before = target.Values(2);
  const NetParameter model = SavedModel(ChainNet({{"a", 4}, {"b", 6}}), 2);
  EXPECT_NE(ErrorOf([&] { target.Load(model, OnMismatch::kError); }), "");
  const LoadReport report = target.Load(model, OnMismatch::kSkip);
  EXPECT_EQ(report.loaded, std::vector<std::string>{"a"});
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].layer, "b");
  EXPECT_EQ(report.skipped[0].text,
            "blob 0 (weight) is 6x4 in the file, but 5x4 in the net; blob 1 (bias) is 6 in the "
            "file, but 5 in the net");
  EXPECT_EQ(target.Values(2), before);
  EXPECT_EQ(target.Values(0).size(), 12u);
  EXPECT_EQ(target.Values(0)[5], model.layer(1).blobs(0).data(5));
  EXPECT_EQ(report.parameters, 4);
  EXPECT_EQ(report.filled, (std::set<int>{0, 1}));
  EXPECT_NE(DescribeLoad(report, "m").find("  skipped  b: blob 0 (weight) is 6x4"),
            std::string::npos)
      << DescribeLoad(report, "m");
}

TEST(Load, SkipIsForMissingLayersToo) {
  const Target target(ChainNet({{"a", 4}, {"b", 5}}));
  const NetParameter model = SavedModel(ChainNet({{"a", 4}}), 2);
  EXPECT_NE(ErrorOf([&] { target.Load(model, OnMismatch::kError, MissingLayers::kError); }), "");
  EXPECT_EQ(target.Load(model, OnMismatch::kSkip, MissingLayers::kError).at_fillers,
            std::vector<std::string>{"b"});
}

TEST(Load, ReshapeTakesAsManyValues) {
  const Target target(ChainNet({{"a", 4}}));
  NetParameter model = SavedModel(ChainNet({{"a", 4}}), 2);
  BlobShape* shape = model.mutable_layer(1)->mutable_blobs(0)->mutable_shape();
  shape->clear_dim();
  for (int dim : {4, 3, 1, 1}) shape->add_dim(dim);
  EXPECT_NE(ErrorOf([&] {
              target.Load(model, OnMismatch::kError);
            }).find("is 4x3x1x1 in the file, but 4x3 in the net"),
            std::string::npos);
  const LoadReport report = target.Load(model, OnMismatch::kReshape);
  ASSERT_EQ(report.reshaped.size(), 1u);
  EXPECT_EQ(report.reshaped[0].layer, "a");
  EXPECT_EQ(target.Values(0)[11], model.layer(1).blobs(0).data(11));
  EXPECT_NE(ErrorOf([&] {
              target.Load(SavedModel(ChainNet({{"a", 5}}), 1), OnMismatch::kReshape);
            }).find("is 5x3 in the file, but 4x3"),
            std::string::npos);
}

TEST(Load, FourAxesAndRawBytesAreTaken) {
  const Target target(ChainNet({{"a", 2}}));
  NetParameter model = SavedModel(ChainNet({{"a", 2}}), 2);
  BlobProto* weight = model.mutable_layer(1)->mutable_blobs(0);
  const float first[6] = {1, 2, 3, 4, 5, 6};
  weight->clear_data();
  weight->set_raw_data_type(FLOAT);
  weight->set_raw_data(std::string(reinterpret_cast<const char*>(first), sizeof(first)));
  weight->mutable_shape()->clear_dim();
  for (int dim : {1, 1, 2, 3}) weight->mutable_shape()->add_dim(dim);
  BlobProto* bias = model.mutable_layer(1)->mutable_blobs(1);
  bias->Clear();
  bias->set_num(1);
  bias->set_channels(1);
  bias->set_height(1);
  bias->set_width(2);
  bias->add_double_data(7);
  bias->add_double_data(8);
  target.Load(model, OnMismatch::kError);
  EXPECT_EQ(target.Values(0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(target.Values(1), (std::vector<float>{7, 8}));
}

TEST(Load, LastLayerOfANameWithBlobsIsLoaded) {
  const Target target(ChainNet({{"a", 2}}));
  NetParameter model = SavedModel(ChainNet({{"a", 2}}), 2);
  *model.add_layer() = SavedModel(ChainNet({{"a", 2}}), 3).layer(1);
  model.add_layer()->set_name("a");
  target.Load(model, OnMismatch::kError);
  EXPECT_EQ(target.Values(0)[0], model.layer(2).blobs(0).data(0));
}

TEST(Load, AdaptBlobsIsAskedFirst) {
  Registry registry = BuiltinRegistry();
  LayerType type = *registry.Find("InnerProduct");
  type.name = "FakeFork";
  type.adapt_blobs = [](const LayerParameter& written, const LayerInfo& info,
                        std::vector<BlobProto>* blobs) {
    if (written.name() == "broken") Fail(ErrorCode::kDataLoss, "the fork wrote nonsense");
    // This fork stores the bias first, and a third blob.
    if (blobs->size() != 3) return;
    EXPECT_EQ(info.parameters.size(), 2u);
    blobs->pop_back();
    std::swap((*blobs)[0], (*blobs)[1]);
  };
  registry.Add(type);
  const auto plan_of = [&](const std::string& name) {
    const NetFile net = ParseNet(ChainNet({{name, 2}}, "FakeFork"), "n");
    NetState state;
    std::vector<Problem> warnings;
    return MakePlan(net.net, net.source, state, registry, {.backward = false}, &warnings);
  };
  NetParameter model = SavedModel(ChainNet({{"a", 2}}), 2);
  const NetParameter original = model;
  LayerParameter* layer = model.mutable_layer(1);
  layer->mutable_blobs()->SwapElements(0, 1);
  layer->add_blobs()->add_data(1);
  layer->mutable_blobs(2)->mutable_shape()->add_dim(1);
  const auto plan = plan_of("a");
  const auto weights = Weights::Make(*plan, 1);
  weights->Load(*plan, model, "m", MissingLayers::kError);
  EXPECT_EQ(ValuesOf(std::as_const(*weights).blob(0))[5], original.layer(1).blobs(0).data(5));
  // Fitting blobs are loaded unchanged, and errors of the hook name file and layer.
  weights->Load(*plan, original, "m", MissingLayers::kError);
  layer->set_name("broken");
  const auto broken = plan_of("broken");
  EXPECT_EQ(
      ErrorOf([&] { Weights::Make(*broken, 1)->Load(*broken, model, "m", MissingLayers::kError); }),
      "m: layer \"broken\": the fork wrote nonsense");
}

TEST(Load, RenamesAreSuggestedByShapeAndByName) {
  const Target target(ChainNet({{"one", 4}, {"two_new", 5}, {"three", 6}, {"conv_4", 7}}));
  const LoadReport report =
      target.Load(SavedModel(ChainNet({{"uno", 4}, {"two", 5}, {"three", 6}, {"conv4", 8}}), 2),
                  OnMismatch::kError);
  ASSERT_EQ(report.renames.size(), 3u);
  EXPECT_EQ(report.renames[0].layer_of_file, "uno");  // the only one of that shape
  EXPECT_EQ(report.renames[1].layer_of_file, "two");
  EXPECT_TRUE(report.renames[1].fits);
  EXPECT_EQ(report.renames[2].layer_of_file, "conv4");
  EXPECT_FALSE(report.renames[2].fits);
  EXPECT_EQ(
      LoadWarning(report, "m"),
      "only 2 of the 8 parameter blobs of the net came from m; rename 'one' to 'uno'?; rename "
      "'two_new' to 'two'?");
}

TEST(Load, HalfOfTheBlobsNeedNoWarning) {
  const Target target(ChainNet({{"a", 4}, {"b", 5}}));
  const LoadReport report = target.Load(SavedModel(ChainNet({{"a", 4}}), 2), OnMismatch::kError);
  EXPECT_EQ(LoadWarning(report, "m"), "");
}

class LoadOfFiles : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const NetParameter& model) const {
    WriteCaffemodel(model, folder_.File(name));
    return folder_.File(name);
  }
  test::TempDir folder_;
};

TEST_F(LoadOfFiles, LaterOnesAddAndOverride) {
  const Target target(ChainNet({{"a", 4}, {"b", 5}, {"c", 6}, {"d", 7}}));
  const NetParameter first = SavedModel(ChainNet({{"a", 4}, {"b", 5}}), 2);
  NetParameter second = SavedModel(ChainNet({{"a", 4}, {"b", 5}, {"c", 6}, {"d", 7}}), 3);
  second.mutable_layer()->DeleteSubrange(1, 1);
  LogText log;
  const LoadReport report = LoadFiles({.paths = {Write("1", first), Write("2", second)}},
                                      *target.plan, target.weights.get(), &log);
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_TRUE(report.at_fillers.empty());
  EXPECT_EQ(target.Values(0)[0], first.layer(1).blobs(0).data(0));
  EXPECT_EQ(target.Values(2)[0], second.layer(1).blobs(0).data(0));
  EXPECT_EQ(log.warnings.find("only"), std::string::npos) << log.warnings;
}

TEST_F(LoadOfFiles, LayersMissingFromAllFilesAreAnError) {
  const Target target(ChainNet({{"a", 4}, {"b", 5}, {"see", 6}}));
  const NetParameter model = SavedModel(ChainNet({{"a", 4}, {"b", 5}, {"sea", 6}}), 2);
  const std::string path = Write("1", model);
  WeightsFiles files{.paths = {path, path}};
  EXPECT_EQ(
      ErrorOf([&] { LoadFiles(files, *target.plan, target.weights.get(), nullptr); }),
      path + ", " + path +
          ": layer \"see\": none of the files has blobs for this layer (did you mean 'sea'?)");
  files.on_mismatch = OnMismatch::kSkip;
  EXPECT_EQ(LoadFiles(files, *target.plan, target.weights.get(), nullptr).at_fillers,
            std::vector<std::string>{"see"});
}

TEST_F(LoadOfFiles, LessThanHalfWarnsOnceForAll) {
  const Target target(ChainNet({{"a", 4}, {"b_new", 5}, {"c", 6}}));
  LogText log;
  LoadFiles({.paths = {Write("1", SavedModel(ChainNet({{"a", 4}, {"b", 5}}), 2))},
             .on_mismatch = OnMismatch::kError,
             .missing = MissingLayers::kKeep},
            *target.plan, target.weights.get(), &log);
  EXPECT_NE(log.warnings.find("only 2 of the 6 parameter blobs of the net came from " +
                              folder_.File("1") + "; rename 'b_new' to 'b'?\n"),
            std::string::npos)
      << log.warnings;
}

TEST_F(LoadOfFiles, NothingIsAnErrorUnlessMismatchesAreSkipped) {
  const Target target(ChainNet({{"a", 4}, {"b", 5}}));
  const std::string path = Write("1", SavedModel(ChainNet({{"x", 9}, {"y", 5}}), 2));
  WeightsFiles files{.paths = {path}, .missing = MissingLayers::kKeep};
  EXPECT_EQ(ErrorOf([&] { LoadFiles(files, *target.plan, target.weights.get(), nullptr); }),
            path +
                ": has none of the 4 parameter blobs of the net. Layers of the file: x, y; of the "
                "net: a, b. Give the weights of this net, or skip mismatches (--on_mismatch=skip) "
                "to start from the fillers");
  files.on_mismatch = OnMismatch::kSkip;
  EXPECT_TRUE(LoadFiles(files, *target.plan, target.weights.get(), nullptr).filled.empty());
}

TEST(ZeroWeights, OfTwoLayersAreAWarning) {
  const std::string filler = " weight_filler { type: 'xavier' }";
  const auto warning = [](const std::string& first, const std::string& second) {
    const auto plan = test::PlanText(
        "layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 2 dim: 3 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'd' top: 'a' inner_product_param {"
        " num_output: 3" +
            first +
            " } }"
            "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' inner_product_param {"
            " num_output: 3" +
            second +
            " } }"
            "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 'd' top: 'l' }",
        TRAIN);
    return ZeroWeightsWarning(*plan, *Weights::Make(*plan, 1));
  };
  EXPECT_EQ(warning("", ""),
            "the weights of these layers are all 0, so none of them can learn: a, b; give each a "
            "weight_filler { type: \"xavier\" }, or weights");
  EXPECT_EQ(warning(filler, ""), "");
  EXPECT_EQ(warning("", filler), "");
}

}  // namespace
}  // namespace crema
