// Nets compute the same although planning splits their data layers.
#include "crema.pb.h"
#include "gpu/uploaded_bytes.h"
#include "runtime/evaluate.h"

namespace crema::test {
namespace {

using UploadedNets = UploadedBytes;

std::string Product(const std::string& name, const std::string& bottom, const std::string& top) {
  return StrCat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                top,
                "' inner_product_param { num_output: 20 weight_filler { type: 'xavier' } } } ");
}

double LossOf(const std::string& net, const PlanOptions& options) {
  return Open(net, TRAIN, options)->Forward();
}

// Layers with one name, or none, draw the same as without the pass; so do weights of layers with
// the names of inserted layers.
TEST_F(UploadedNets, DrawTheSameNumbers) {
  const std::string data = DataNet(WriteDrawn(3), "mirror: true scale: 0.01");
  const std::string loss =
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' } ";
  const auto dropout = [](const std::string& name, const std::string& blob) {
    return StrCat("layer { name: '", name, "' type: 'Dropout' bottom: '", blob, "' top: '", blob,
                  "' } ");
  };
  std::vector<std::string> nets{data + Product("data_d_floats", "data", "y") + loss};
  for (const std::string name : {"drop", ""}) {
    nets.push_back(StrCat(data, Product("ip", "data", "x"), dropout(name, "x"),
                          Product("ip2", "x", "y"), dropout(name, "y"), loss));
  }
  for (const std::string& net : nets) {
    const double cpu = LossOf(net, OnCpu());
    EXPECT_NEAR(LossOf(net, OnGpu()), cpu, 1e-5 * cpu) << net;
  }
}

TEST_F(UploadedNets, ImagesThatNobodyReadsAreNoResult) {
  const std::string text =
      DataNet(WriteDrawn(3), "mirror: true mean_value: 7") +
      "layer { name: 's' type: 'Power' bottom: 'label' top: 's' power_param { scale: 2 } } ";
  const NetFile net = ParseNet(text, "net.prototxt");
  const auto plan = PlanText(text, TEST, {.backward = false});
  const NetParameter model = Weights::Make(*plan, 5)->Export(*plan);
  EvaluationOptions options{.threads = 1, .stages = {}};
  options.device = GpuDevice();
  const Evaluation gpu = Evaluate(net, model, "m", LayersWithGpuImplementations(), options);
  ASSERT_EQ(gpu.outputs.size(), 1U);
  EXPECT_EQ(gpu.outputs[0].blob, "s");
}

}  // namespace
}  // namespace crema::test
