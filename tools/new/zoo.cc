#include "new/zoo.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/models_folder.h"
#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "format/prototxt.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainNet = "train_val.prototxt";

bool HasLayer(const NetParameter& net, std::string_view type) {
  return std::ranges::any_of(net.layer(),
                             [&](const LayerParameter& layer) { return layer.type() == type; });
}

// Nothing for nets that do not learn from pictures with labels.
std::optional<PictureTask> TaskOf(const NetParameter& net) {
  if (HasLayer(net, "MultiBoxLoss")) return PictureTask::kDetect;
  if (!HasLayer(net, "SoftmaxWithLoss") || !HasLayer(net, "Convolution")) return std::nullopt;
  for (const char* enlarging : {"Deconvolution", "Interp", "Upsample", "Resize"}) {
    if (HasLayer(net, enlarging)) return PictureTask::kSegment;
  }
  const LayerParameter& first = net.layer(0);
  const bool has_labels = first.type() == "Data" && first.top_size() == 2;
  return has_labels ? std::optional(PictureTask::kClassify) : std::nullopt;
}

std::vector<std::string> ModelsFor(PictureTask task, const std::string& models) {
  std::error_code error;
  std::vector<std::string> found;
  for (const std::string& name : NamesIn(models, error)) {
    const fs::path path = fs::path(models) / name / kTrainNet;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    if (TaskOf(ReadNet(path.string()).net) == task) found.push_back(name);
  }
  std::ranges::sort(found);
  return found;
}

void SetInput(const NetParameter& deploy, const std::string& file, ZooModel* model) {
  for (const LayerParameter& layer : deploy.layer()) {
    if (layer.type() != "Input" || layer.input_param().shape_size() != 1) continue;
    const BlobShape& shape = layer.input_param().shape(0);
    if (shape.dim_size() != 4) continue;
    model->channels = static_cast<int>(shape.dim(1));
    model->height = static_cast<int>(shape.dim(2));
    model->width = static_cast<int>(shape.dim(3));
    return;
  }
  Fail(ErrorCode::kInvalidArgument, "has no Input layer of pictures", {.file = file});
}

}  // namespace

ZooModel ReadZooModel(const std::string& name, PictureTask task) {
  const bool own = name.find('/') != std::string::npos;
  const std::string models = own ? "" : ModelsFolder();
  const fs::path folder = own ? fs::path(name) : fs::path(models) / name;
  std::error_code ignored;
  const auto others = [&] {
    const std::vector<std::string> names = ModelsFor(task, models);
    return StrCat(DidYouMean(name, names), "; models for ", NameOf(task), ": ", Join(names, ", "));
  };
  if (!own && !fs::exists(folder / kTrainNet, ignored)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--model: there is no model '", name, "'", others()));
  }
  fs::path path = own ? fs::path(name).lexically_normal() : fs::path("models") / name;
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  ZooModel model{.name = path.filename().string(), .folder = path.string(), .task = task};
  model.net = ReadNet((folder / kTrainNet).string()).net;
  if (TaskOf(model.net) != task) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--model: '", name, "' is no net for ", NameOf(task), own ? "" : others()));
  }
  model.solver = ReadSolver((folder / "solver.prototxt").string()).solver;
  const std::string deploy = (folder / "deploy.prototxt").string();
  SetInput(ReadNet(deploy).net, deploy, &model);
  return model;
}

}  // namespace crema::tools
