#include "runtime/replay.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "core/blob_types.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "runtime/session.h"

namespace crema {
namespace {

// Maps names such as "blob:conv1", "param:conv1:0", "loss".
using Records = std::map<std::string, const BlobProto*>;

struct RecordedRun {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Weights> weights;
  std::unique_ptr<Session> session;
};

// Refers to `recording`, which must outlive the result. Throws kDataLoss for anything else.
Records ReadRecords(const NetParameter& recording) {
  Records records;
  for (const LayerParameter& layer : recording.layer()) {
    const bool known = layer.name() == "loss" || layer.name().starts_with("blob:") ||
                       layer.name().starts_with("param:");
    if (known && layer.blobs_size() > 0) records[layer.name()] = &layer.blobs(0);
  }
  if (records.empty()) {
    Fail(ErrorCode::kDataLoss,
         "the file of --golden is not a recording of replay: it has no 'blob:...' records");
  }
  return records;
}

// Returns true if gradients were recorded.
bool HasDiff(const BlobProto& blob) { return blob.diff_size() > 0 || blob.double_diff_size() > 0; }

// Returns the net with the recorded shape of each Input layer.
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

// Plans `shaped`, a form of `net`, with its weights, or with fillers seeded by `seed`.
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

// Returns the tops of Input layers.
std::vector<std::string> InputBlobs(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name != "Input") continue;
    for (int v : layer.outputs) names.push_back(plan.values[static_cast<size_t>(v)].name);
  }
  return names;
}

// Copies recorded values to a view of the session, on any device.
void SetTo(const BlobProto& blob, const TensorView& view, const Session& session) {
  Tensor host(view.shape(), view.dtype());
  CopyTo(blob, host.view());
  session.Write(view, host.view().raw());
}

std::vector<double> ElementsOnHost(const ConstTensorView& view) {
  return DispatchBlob(view.dtype(), [&]<typename T>(T) {
    const std::span<const T> span = view.span<T>();
    return std::vector<double>(span.begin(), span.end());
  });
}

std::vector<double> Elements(const Session& session, const ConstTensorView& view) {
  if (view.empty()) return {};
  return ElementsOnHost(*HostView(session, view));
}

std::vector<double> Elements(const BlobProto& blob, bool diff) {
  const auto copy = [](const auto& field) {
    return std::vector<double>(field.begin(), field.end());
  };
  if (diff) return blob.double_diff_size() > 0 ? copy(blob.double_diff()) : copy(blob.diff());
  return blob.double_data_size() > 0 ? copy(blob.double_data()) : copy(blob.data());
}

class Comparer {
 public:
  Comparer(const Records& records, const RecordedRun& run, const ReplayOptions& options)
      : records_(records), plan_(*run.plan), run_(run), options_(options) {}

  ReplayResult Compare(double loss) {
    RefuseUnknownParameters();
    CompareBlobs();
    if (const auto found = records_.find("loss"); found != records_.end()) {
      CompareOne("loss", "", {loss}, Elements(*found->second, false));
    }
    CompareGradients();
    CompareParameters();
    return std::move(result_);
  }

 private:
  bool Survives(int v) const {
    if (!plan_.options.optimize) return true;
    const PlannedValue& value = plan_.values[static_cast<size_t>(v)];
    return value.is_output || LayerOf(v).inputs.empty();
  }

  const PlannedLayer& LayerOf(int v) const {
    return plan_.layers[static_cast<size_t>(plan_.values[static_cast<size_t>(v)].producer)];
  }

  // Returns true for blobs of the original net, before passes.
  bool IsBlobOfNet(const std::string& name) const {
    return std::ranges::any_of(plan_.written.layer(), [&](const LayerParameter& layer) {
      return std::ranges::find(layer.top(), name) != layer.top().end();
    });
  }

  void RefuseUnknownParameters() const {
    for (const auto& record : records_) {
      const std::string& key = record.first;
      if (!key.starts_with("param:")) continue;
      const bool known = std::ranges::any_of(plan_.parameters, [&](const ParameterSlot& slot) {
        const PlannedLayer& layer = plan_.layers[static_cast<size_t>(slot.layer)];
        return key == StrCat("param:", layer.name(), ":", slot.index);
      });
      if (known) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the recording has '", key, "', which the net does not have"));
    }
  }

  std::vector<std::pair<int, std::string>> RecordedBlobs(bool last_value) {
    std::vector<std::pair<int, std::string>> blobs;
    for (const auto& [key, blob] : records_) {
      if (!key.starts_with("blob:")) continue;
      const std::string name = key.substr(5);
      const int v = last_value ? plan_.FindValue(name) : plan_.FindFirstValue(name);
      if (v < 0 && (!plan_.options.optimize || !IsBlobOfNet(name))) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("the recording has a blob '", name, "' that the net does not have"));
      }
      if (v < 0) {
        if (last_value) result_.not_compared.push_back(key);
      } else {
        blobs.emplace_back(v, name);
      }
    }
    std::ranges::sort(blobs);
    return blobs;
  }

  void CompareBlobs() {
    for (const auto& [v, name] : RecordedBlobs(true)) {
      const std::string key = "blob:" + name;
      if (!Survives(v)) {
        result_.not_compared.push_back(key);
        continue;
      }
      const BlobProto& record = *records_.at(key);
      const ConstTensorView data = run_.session->DataOf(v);
      if (CompareShape(key, LayerOf(v).name(), data.shape(), record)) {
        CompareOne(key, LayerOf(v).name(), Elements(*run_.session, data), Elements(record, false));
      }
    }
  }

  // In the order of the backward pass, so that the first difference is the cause.
  void CompareGradients() {
    std::vector<std::pair<int, std::string>> blobs = RecordedBlobs(false);
    std::ranges::reverse(blobs);
    for (const auto& [v, name] : blobs) {
      const BlobProto& record = *records_.at("blob:" + name);
      if (!HasDiff(record)) continue;
      const ConstTensorView gradient = run_.session->Gradient(name);
      const bool survives = !plan_.options.optimize || !LayerOf(v).backward;
      std::vector<double> expected = Elements(record, true);
      if (gradient.empty() || !survives) {
        const bool all_zero = std::ranges::all_of(expected, [](double x) { return x == 0; });
        if (!all_zero) result_.not_compared.push_back("diff:" + name);
        if (!all_zero && !plan_.options.optimize) {
          CompareOne("diff:" + name, LayerOf(v).name(), {}, expected);
        }
        continue;
      }
      CompareOne("diff:" + name, LayerOf(v).name(), Elements(*run_.session, gradient), expected);
    }
  }

  void CompareParameters() {
    for (const PlannedLayer& layer : plan_.layers) {
      for (size_t i = 0; i < layer.parameters.size(); ++i) {
        const std::string key = StrCat("param:", layer.name(), ":", i);
        const auto found = records_.find(key);
        if (found == records_.end()) continue;
        const auto slot = static_cast<size_t>(layer.parameters[i]);
        CompareOne(key, layer.name(), ElementsOnHost(std::as_const(*run_.weights).blob(slot)),
                   Elements(*found->second, false));
        const TensorView gradient = run_.session->ParameterGradient(slot);
        if (!HasDiff(*found->second)) continue;
        const std::vector<double> expected = Elements(*found->second, true);
        if (gradient.empty() && std::ranges::all_of(expected, [](double x) { return x == 0; })) {
          continue;
        }
        CompareOne("diff:" + key, layer.name(), Elements(*run_.session, gradient), expected);
      }
    }
  }

  // Returns true if they are equal. The old form of a blob always has four axes.
  bool CompareShape(const std::string& what, const std::string& layer, const Shape& got,
                    const BlobProto& record) {
    if (!record.has_shape() || got == ShapeOf(record)) return true;
    if (!result_.fits) return false;
    result_.fits = false;
    result_.lines.push_back(
        {.what = what,
         .layer = layer,
         .max_absolute = INFINITY,
         .max_relative = INFINITY,
         .note = StrCat("shape ", ToString(got), ", recorded ", ToString(ShapeOf(record)))});
    return false;
  }

  void CompareOne(const std::string& what, const std::string& layer, const std::vector<double>& got,
                  const std::vector<double>& expected) {
    if (!result_.fits) return;
    ReplayLine line{.what = what, .layer = layer};
    double largest = 0;
    bool finite = true;
    if (got.size() != expected.size()) {
      finite = false;
    } else {
      for (size_t i = 0; i < got.size(); ++i) {
        // Equal infinities and equal NaNs match.
        if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) {
          if (std::isfinite(expected[i])) largest = std::max(largest, std::abs(expected[i]));
          continue;
        }
        const double difference = std::abs(got[i] - expected[i]);
        finite = finite && std::isfinite(difference);
        line.max_absolute = std::max(line.max_absolute, difference);
        largest = std::max(largest, std::abs(expected[i]));
      }
    }
    line.max_relative = largest > 0 ? line.max_absolute / largest : line.max_absolute;
    line.fits = finite && line.max_absolute <= options_.atol + options_.rtol * largest;
    if (!finite) line.max_absolute = INFINITY;
    result_.fits = result_.fits && line.fits;
    result_.lines.push_back(std::move(line));
  }

  const Records& records_;
  const Plan& plan_;
  const RecordedRun& run_;
  const ReplayOptions& options_;
  ReplayResult result_;
};

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

ReplayResult Replay(const ReplayNet& net, const NetParameter& recording, const Registry& registry,
                    const ReplayOptions& options) {
  const Records records = ReadRecords(recording);
  const bool gradients =
      std::ranges::any_of(records, [](const auto& entry) { return HasDiff(*entry.second); });
  const NetParameter shaped = WithRecordedShapes(net.net.net, records);
  PlanOptions plan_options = options.plan;
  plan_options.threads = options.threads > 0 ? options.threads : AvailableProcessors();
  plan_options.backward = gradients;
  plan_options.optimize = options.optimize;
  plan_options.device = options.device.device;
  RecordedRun run = MakeRecordedRun(net, shaped, registry, plan_options,
                                    options.device.Context(plan_options.threads, 1), 1);
  for (const std::string& name : InputBlobs(*run.plan)) {
    const auto found = records.find("blob:" + name);
    if (found == records.end()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the recording has no blob '", name, "', which is an input of the net"));
    }
    SetTo(*found->second, run.session->MutableData(name), *run.session);
  }
  const double loss = run.session->Forward();
  if (gradients) {
    run.session->ZeroParameterGradients();
    run.session->Backward();
  }
  run.session->ReturnStatistics();
  return Comparer(records, run, options).Compare(loss);
}

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
    run.session->ZeroParameterGradients();
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
    for (size_t i = 0; i < layer.parameters.size(); ++i) {
      const auto slot = static_cast<size_t>(layer.parameters[i]);
      BlobProto* blob = AddRecord(StrCat("param:", layer.name(), ":", i), &recording);
      CopyFrom(std::as_const(*run.weights).blob(slot), blob);
      const TensorView gradient = run.session->ParameterGradient(slot);
      if (!gradient.empty()) CopyDiffFrom(gradient, blob);
    }
  }
  return recording;
}

}  // namespace crema
