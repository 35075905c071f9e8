#include "report/tensorboard_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/folder.h"
#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "report/clock.h"
#include "report/message_writer.h"
#include "report/metrics_writer.h"
#include "runtime/session.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventPrefix = "events.out.tfevents.";

void AddKnown(const char* tag, double value, std::vector<NamedScalar>* scalars) {
  if (std::isfinite(value)) scalars->push_back({tag, value});
}

// Returns true if the folder has a non-empty event file: the first one contains the graph.
bool HasGraph(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       Advance(entry, error)) {
    const bool is_event_file = entry->path().filename().string().starts_with(kEventPrefix);
    std::error_code ignored;
    if (is_event_file && entry->file_size(ignored) > 0 && !ignored) return true;
  }
  return false;
}

// Field numbers of tensorflow/core/framework/{graph,node_def,attr_value,tensor_shape}.proto.
MessageWriter ShapeMessage(const Shape& shape) {
  constexpr int kDim = 2;
  constexpr int kSize = 1;
  MessageWriter message;
  for (int axis = 0; axis < shape.axes(); ++axis) {
    MessageWriter dim;
    dim.Integer(kSize, shape[axis]);
    message.Message(kDim, dim);
  }
  return message;
}

MessageWriter OutputShapes(const Plan& plan, const PlannedLayer& layer) {
  constexpr int kShapeInList = 7;
  constexpr int kList = 1;
  constexpr int kKey = 1;
  constexpr int kValue = 2;
  MessageWriter list;
  for (const int v : layer.outputs) {
    list.Message(kShapeInList, ShapeMessage(plan.values[static_cast<size_t>(v)].spec.shape));
  }
  MessageWriter value;
  value.Message(kList, list);
  MessageWriter entry;
  entry.Bytes(kKey, "_output_shapes");
  entry.Message(kValue, value);
  return entry;
}

std::string NodeName(const std::string& layer, std::set<std::string>* taken) {
  std::string name = layer;
  std::ranges::replace_if(
      name,
      [](unsigned char c) {
        return std::isalnum(c) == 0 &&
               std::string_view("_.-/").find(static_cast<char>(c)) == std::string_view::npos;
      },
      '_');
  if (name.empty()) name = "layer";
  std::string unique = name;
  for (int i = 1; !taken->insert(unique).second; ++i) unique = StrCat(name, "_", i);
  return unique;
}

MessageWriter NodeMessage(const Plan& plan, const PlannedLayer& layer, const std::string& name,
                          const std::vector<std::string>& value_names) {
  constexpr int kName = 1;
  constexpr int kOp = 2;
  constexpr int kInput = 3;
  constexpr int kAttr = 5;
  MessageWriter node;
  node.Bytes(kName, name);
  node.Bytes(kOp, layer.layer->param().type());
  for (const int v : layer.inputs) node.Bytes(kInput, value_names[static_cast<size_t>(v)]);
  node.Message(kAttr, OutputShapes(plan, layer));
  return node;
}

}  // namespace

std::vector<NamedScalar> ScalarsOf(const std::string& group,
                                   const std::vector<OutputValue>& outputs) {
  std::vector<NamedScalar> scalars;
  size_t element = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const bool again = k > 0 && outputs[k - 1].blob == outputs[k].blob;
    const bool more = k + 1 < outputs.size() && outputs[k + 1].blob == outputs[k].blob;
    element = again ? element + 1 : 0;
    std::string tag = group + "/" + outputs[k].blob;
    if (again || more) tag += StrCat("/", element);
    scalars.push_back({std::move(tag), outputs[k].value});
  }
  return scalars;
}

std::string NextEventFile(const std::string& folder) {
  auto seconds = static_cast<int64_t>(UnixTime());
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       Advance(entry, error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kEventPrefix)) continue;
    int64_t other = 0;
    std::from_chars(name.data() + kEventPrefix.size(), name.data() + name.size(), other);
    seconds = std::max(seconds, other + 1);
  }
  char number[32];
  std::snprintf(number, sizeof(number), "%010ld", seconds);
  return StrCat(kEventPrefix, number, ".", HostName(), ".", ::getpid());
}

TensorboardWriter::TensorboardWriter(RunFolder& folder, Session& session, EventOptions options)
    : session_(session),
      options_(options),
      folder_(folder.path()),
      file_(folder, NextEventFile(folder.path()), [this] { return Beginning(); }) {}

std::string TensorboardWriter::Beginning() const {
  const double now = UnixTime();
  std::string bytes = FileVersionEvent(now);
  if (options_.start == RunStart::kContinued) {
    bytes += RestartEvent({.wall = now, .step = options_.first_iteration});
  }
  if (HasGraph(folder_)) return bytes;  // TensorBoard warns about a second one
  return bytes + GraphEvent(now, GraphDefOf(session_.plan()));
}

void TensorboardWriter::OnIteration(const IterationReport& report) {
  pace_.Add(report);
  const int64_t every = options_.histogram_interval;
  if (every > 0 && report.iteration % every == 0) WriteHistograms(report.iteration);
  if (!IsRowDue(report, options_.interval)) return;
  std::vector<NamedScalar> scalars = ScalarsOf("train_output", report.outputs);
  AddKnown("train/loss", report.loss, &scalars);
  AddKnown("train/smoothed_loss", report.smoothed_loss, &scalars);
  AddKnown("train/lr", report.rate, &scalars);
  AddKnown("train/samples_per_second", pace_.SamplesPerSecond(), &scalars);
  AddKnown("train/wait_share", pace_.WaitShare(), &scalars);
  if (report.epoch > 0) AddKnown("train/epoch", report.epoch, &scalars);
  if (report.loss_scale > 0) {
    AddKnown("train/loss_scale", report.loss_scale, &scalars);
    AddKnown("train/skipped_updates", static_cast<double>(report.skipped_updates), &scalars);
  }
  pace_ = {};
  file_.Append(ScalarsEvent({UnixTime(), report.iteration}, scalars));
}

void TensorboardWriter::OnTest(const TestReport& report) {
  const std::string group = StrCat("test_", report.net);
  std::vector<NamedScalar> scalars = ScalarsOf(group, report.outputs);
  if (report.has_loss) scalars.push_back({group + "/total_loss", report.loss});
  if (!scalars.empty()) file_.Append(ScalarsEvent({UnixTime(), report.iteration}, scalars));
}

void TensorboardWriter::WriteHistograms(int64_t iteration) {
  std::vector<NamedHistogram> histograms;
  const Plan& plan = session_.plan();
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    if (slot.owner != static_cast<int>(s)) continue;
    const std::string& layer = plan.layers[static_cast<size_t>(slot.layer)].name();
    const std::string name = StrCat(layer, "/", slot.role.empty() ? StrCat(slot.index) : slot.role);
    histograms.push_back(
        {"weights/" + name, HistogramOf(HostView(session_, session_.Parameter(s))->span<float>())});
    const HostView gradient(session_, session_.ParameterGradient(s));
    if (gradient->empty()) continue;
    histograms.push_back({"gradients/" + name, HistogramOf(gradient->span<float>())});
  }
  file_.Append(HistogramsEvent({UnixTime(), iteration}, histograms));
}

std::string GraphDefOf(const Plan& plan) {
  constexpr int kNode = 1;
  constexpr int kVersions = 4;
  constexpr int kProducer = 1;
  MessageWriter graph;
  std::set<std::string> taken;
  std::vector<std::string> value_names(plan.values.size());  // "node" or "node:output"
  for (const PlannedLayer& layer : plan.layers) {
    const bool is_split = layer.layer->param().type() == "Split";
    const std::string name = is_split ? "" : NodeName(layer.name(), &taken);
    if (!is_split) graph.Message(kNode, NodeMessage(plan, layer, name, value_names));
    for (size_t i = 0; i < layer.outputs.size(); ++i) {
      value_names[static_cast<size_t>(layer.outputs[i])] =
          is_split ? value_names[static_cast<size_t>(layer.inputs[0])]
                   : name + (i == 0 ? std::string() : StrCat(":", i));
    }
  }
  MessageWriter versions;
  versions.Integer(kProducer, 22);
  graph.Message(kVersions, versions);
  return graph.bytes();
}

}  // namespace crema
