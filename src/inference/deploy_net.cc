#include "inference/deploy_net.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/graph.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

// By node: true if an output of the net depends on it. Inputs always remain.
std::vector<bool> NeededNodes(const Graph& graph) {
  std::vector<bool> needed(graph.nodes.size());
  std::vector<bool> read(graph.values.size());
  for (const int v : graph.Outputs()) read[static_cast<size_t>(v)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    needed[n] = node.type->name == "Input" ||
                std::ranges::any_of(node.outputs, [&](int v) { return read[size_t(v)]; });
    if (!needed[n]) continue;
    for (const int v : node.inputs) read[static_cast<size_t>(v)] = true;
  }
  return needed;
}

// Adds Silence for values whose consumers were dropped, so that they do not become outputs.
void SilenceRest(const Graph& graph, const std::vector<bool>& needed, NetParameter* net) {
  LayerParameter silence;
  silence.set_name("silence");
  silence.set_type("Silence");
  for (const Value& value : graph.values) {
    const auto kept = [&](int reader) { return needed[static_cast<size_t>(reader)]; };
    if (!needed[static_cast<size_t>(value.producer)] || value.readers.empty() ||
        std::ranges::any_of(value.readers, kept)) {
      continue;
    }
    silence.add_bottom(value.name);
  }
  if (silence.bottom_size() > 0) *net->add_layer() = silence;
}

// Returns true for a layer that passes on its input under the same name.
bool IsIdentity(const LayerParameter& layer) {
  return layer.type() == "Dropout" && layer.phase() == TEST &&
         layer.dropout_param().scale_train() && layer.bottom_size() == 1 && layer.top_size() == 1 &&
         layer.bottom(0) == layer.top(0);
}

std::string FileOf(const LayerParameter& layer) {
  if (layer.type() == "HDF5Output") return layer.hdf5_output_param().file_name();
  if (layer.type() == "InfogainLoss") return layer.infogain_loss_param().source();
  if (layer.type() == "DetectionEvaluate") {
    return layer.detection_evaluate_param().name_size_file();
  }
  return layer.type() == "PixelsToFloat" ? layer.transform_param().mean_file() : "";
}

// Requires: FileOf returns a file.
void SetFile(const std::string& file, LayerParameter* layer) {
  if (layer->type() == "HDF5Output") layer->mutable_hdf5_output_param()->set_file_name(file);
  if (layer->type() == "InfogainLoss") layer->mutable_infogain_loss_param()->set_source(file);
  if (layer->type() == "DetectionEvaluate") {
    layer->mutable_detection_evaluate_param()->set_name_size_file(file);
  }
  if (layer->type() == "PixelsToFloat") layer->mutable_transform_param()->set_mean_file(file);
}

// Resolves links and ".."; empty if the result is outside of `folder`.
std::string FileWithin(const fs::path& folder, const fs::path& file) {
  if (file.is_absolute() || std::ranges::find(file, "..") != file.end()) return "";
  std::error_code error;
  const fs::path real = fs::weakly_canonical(folder / file, error);
  if (error) return "";
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), real.begin(), real.end());
  return end == folder.end() ? real.string() : "";
}

// Requires: authors of the net may not choose which code runs.
void RefusePython(const LayerParameter& layer, Where where) {
  if (layer.type() != "Python") return;
  where.layer = layer.name();
  Fail(ErrorCode::kUnsupported,
       "a layer of type Python runs code that is not part of the model: give the net itself, as a "
       "prototxt, to a command or a Python program",
       std::move(where));
}

}  // namespace

NetState InferenceState(const NetParameter& net) {
  NetState state = net.state();
  state.set_phase(TEST);
  return state;
}

NetParameter DeployNet(const NetFile& net, const NetState& state, const Registry& registry) {
  std::vector<Problem> warnings;
  const Graph graph = BuildGraph(net.net, net.source, state, registry, &warnings);
  const std::vector<bool> needed = NeededNodes(graph);
  const NetParameter whole = ToNetParameter(graph);
  NetParameter deploy;
  if (whole.has_name()) deploy.set_name(whole.name());
  if (net.net.has_precision()) deploy.set_precision(net.net.precision());
  for (int n = 0; n < whole.layer_size(); ++n) {
    if (!needed[static_cast<size_t>(n)] || IsIdentity(whole.layer(n))) continue;
    LayerParameter* layer = deploy.add_layer();
    *layer = whole.layer(n);
    layer->clear_blobs();
    layer->clear_include();
    layer->clear_exclude();
  }
  SilenceRest(graph, needed, &deploy);
  return deploy;
}

void ConfineFilesTo(const std::string& folder, NetFile* net) {
  const NetState state = InferenceState(net->net);
  for (int i = 0; i < net->net.layer_size(); ++i) {
    LayerParameter* layer = net->net.mutable_layer(i);
    if (!IsIncluded(*layer, state)) continue;
    RefusePython(*layer, net->source.Locate(StrCat("layer[", i, "]")));
    const std::string file = FileOf(*layer);
    if (file.empty()) continue;
    const std::string within = FileWithin(folder, file);
    if (within.empty()) {
      Where where = net->source.Locate(StrCat("layer[", i, "]"));
      where.layer = layer->name();
      Fail(ErrorCode::kInvalidArgument,
           StrCat("names the file '", file,
                  "' outside the folder of its model: put it into that "
                  "folder, and give its name relative to it"),
           where);
    }
    SetFile(within, layer);
  }
}

void RefuseOtherFiles(const NetFile& net, const NetState& state) {
  for (int i = 0; i < net.net.layer_size(); ++i) {
    const LayerParameter& layer = net.net.layer(i);
    if (!IsIncluded(layer, state)) continue;
    RefusePython(layer, net.source.Locate(StrCat("layer[", i, "]")));
    const std::string file = FileOf(layer);
    if (file.empty()) continue;
    Where where = net.source.Locate(StrCat("layer[", i, "]"));
    where.layer = layer.name();
    Fail(ErrorCode::kInvalidArgument,
         StrCat("needs the file '", file, "', but a model is one file: remove the layer",
                layer.type() == "PixelsToFloat" ? ", or give mean_value instead of mean_file" : ""),
         where);
  }
}

}  // namespace crema
