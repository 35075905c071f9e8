#include "runtime/recorded_run.h"

#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"

namespace crema {

Records ReadRecords(const NetParameter& recording) {
  Records records;
  for (const LayerParameter& layer : recording.layer()) {
    const bool known = layer.name() == "loss" || layer.name().starts_with("blob:") ||
                       layer.name().starts_with("param:");
    if (known && layer.blobs_size() > 0) records[layer.name()] = &layer.blobs(0);
  }
  if (records.empty()) {
    Fail(ErrorCode::kDataLoss, "this file is not a recording: it has no 'blob:...' records");
  }
  return records;
}

bool HasDiff(const BlobProto& blob) { return blob.diff_size() > 0 || blob.double_diff_size() > 0; }

NetParameter WithRecordedShapes(const NetParameter& net, const Records& records) {
  NetParameter shaped = net;
  for (LayerParameter& layer : *shaped.mutable_layer()) {
    if (layer.type() != "Input") continue;
    std::vector<BlobShape> shapes;
    for (const std::string& top : layer.top()) {
      const auto found = records.find("blob:" + top);
      if (found == records.end()) break;
      BlobShape shape;
      const Shape recorded = ShapeOf(*found->second);
      for (int64_t dim : recorded.dims()) shape.add_dim(dim);
      shapes.push_back(shape);
    }
    if (static_cast<int>(shapes.size()) != layer.top_size()) continue;
    layer.mutable_input_param()->clear_shape();
    for (const BlobShape& shape : shapes) *layer.mutable_input_param()->add_shape() = shape;
  }
  return shaped;
}

RecordedRun MakeRecordedRun(const ReplayNet& net, const NetParameter& shaped,
                            const Registry& registry, const PlanOptions& options,
                            ExecContext context, uint64_t seed) {
  NetState state;
  state.set_phase(TEST);
  state.MergeFrom(net.net.net.state());
  std::vector<Problem> warnings;
  RecordedRun run;
  run.plan = MakePlan(shaped, net.net.source, state, registry, options, &warnings);
  run.weights = Weights::Make(*run.plan, seed);
  if (net.weights != nullptr) {
    run.weights->Load(*run.plan, *net.weights, net.weights_file, MissingLayers::kError);
  }
  run.session = std::make_unique<Session>(run.plan, run.weights, std::move(context));
  return run;
}

std::vector<std::string> InputBlobs(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name != "Input") continue;
    for (int v : layer.outputs) names.push_back(plan.values[static_cast<size_t>(v)].name);
  }
  return names;
}

void SetTo(const BlobProto& blob, const TensorView& view, const Session& session) {
  Tensor host(view.shape(), view.dtype());
  CopyTo(blob, host.view());
  session.Write(view, host.view().raw());
}

}  // namespace crema
