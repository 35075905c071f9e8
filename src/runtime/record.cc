// Record: runs a net once and stores all that it computes.
#include <algorithm>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "runtime/recorded_run.h"
#include "runtime/replay.h"

namespace crema {
namespace {

BlobProto* AddRecord(const std::string& name, NetParameter* recording) {
  LayerParameter* layer = recording->add_layer();
  layer->set_name(name);
  return layer->add_blobs();
}

void SetInputs(const Records* inputs, uint64_t seed, Session* session) {
  for (const std::string& name : InputBlobs(session->plan())) {
    const TensorView view = session->MutableData(name);
    if (inputs != nullptr && inputs->contains("blob:" + name)) {
      CopyTo(*inputs->at("blob:" + name), view);
      continue;
    }
    const RandomStream stream(seed, HashName(name));
    if (view.dtype() == DType::kU8) {
      const std::span<uint8_t> bytes = view.span<uint8_t>();
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(stream.Below(i, 256));
      }
      continue;
    }
    const std::span<float> span = view.span<float>();
    for (size_t i = 0; i < span.size(); ++i) span[i] = static_cast<float>(stream.Gaussian(i));
  }
}

}  // namespace

NetParameter Record(const ReplayNet& net, const NetParameter* inputs, const Registry& registry,
                    const RecordOptions& options) {
  const Records records = inputs != nullptr ? ReadRecords(*inputs) : Records();
  const NetParameter shaped = WithRecordedShapes(net.net.net, records);
  const int threads = options.threads > 0 ? options.threads : AvailableProcessors();
  PlanOptions plan_options = options.plan;
  plan_options.threads = threads;
  plan_options.backward = options.gradients;
  plan_options.optimize = false;
  RecordedRun run = MakeRecordedRun(net, shaped, registry, plan_options,
                                    ExecContext(threads, options.seed), options.seed);
  SetInputs(inputs != nullptr ? &records : nullptr, options.seed, run.session.get());
  const double loss = run.session->Forward();
  if (options.gradients) {
    run.session->ZeroLearnedGradients();
    run.session->Backward();
  }
  NetParameter recording;
  recording.set_name(run.plan->name);
  AddRecord("loss", &recording)->add_data(static_cast<float>(loss));
  for (const PlannedValue& value : run.plan->values) {
    if (run.plan->FindFirstValue(value.name) != &value - run.plan->values.data()) continue;
    BlobProto* blob = AddRecord("blob:" + value.name, &recording);
    CopyFrom(run.session->Data(value.name), blob);
    const ConstTensorView gradient = run.session->Gradient(value.name);
    if (!gradient.empty()) CopyDiffFrom(gradient, blob);
  }
  for (const PlannedLayer& layer : run.plan->layers) {
    for (size_t i = 0; i < layer.learned.size(); ++i) {
      const auto slot = static_cast<size_t>(layer.learned[i]);
      BlobProto* blob = AddRecord(StrCat("param:", layer.name(), ":", i), &recording);
      CopyFrom(std::as_const(*run.weights).blob(slot), blob);
      const TensorView gradient = run.session->LearnedGradient(slot);
      if (!gradient.empty()) CopyDiffFrom(gradient, blob);
    }
  }
  return recording;
}

}  // namespace crema
