#include "import/onnx.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <system_error>
#include <vector>

#include "common/interrupt.h"
#include "common/log.h"
#include "common/net_flags.h"
#include "common/preprocessing_text.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "inference/stored_preprocessing.h"
#include "onnx/import.h"
#include "onnx/import_check.h"

DECLARE_string(shape);
DEFINE_string(dialect, "",
              "[Output caffe|ssd] caffe or ssd: write only what Caffe 1.0 (2017) or its SSD fork "
              "read; list all nodes that "
              "cannot go");
DEFINE_bool(force, false,
            "[Output] overwrite deploy.prototxt and weights.caffemodel in the folder");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

// Relative to the largest magnitude of a blob, for nets of a dialect.
constexpr double kTolerance = 1e-4;
// Larger weights go to an HDF5 file. A message of protobuf has less than 2 GiB.
constexpr size_t kMostCaffemodel = (size_t{1} << 31) - (size_t{1} << 20);

std::string TextOf(const NetParameter& net, const std::string& model,
                   const std::vector<std::string>& notes) {
  NetParameter without = net;
  for (LayerParameter& layer : *without.mutable_layer()) layer.clear_blobs();
  std::string text = StrCat("# Converted from ", fs::path(model).filename().string(), ".\n");
  for (std::string note : notes) {
    std::replace(note.begin(), note.end(), '\n', ' ');
    text += StrCat("# ", note, "\n");
  }
  return text + PrintText(without);
}

using Check = std::function<void(const std::string& net, const std::string& weights)>;

// The two files, and the folder if it was made here. Removes them unless Keep is called.
class Outputs {
 public:
  explicit Outputs(const std::string& folder)
      : folder_(folder),
        net_(folder_ / "deploy.prototxt"),
        weights_(folder_ / "weights.caffemodel") {
    if (folder == "-") {
      Fail(ErrorCode::kInvalidArgument,
           "-o takes a folder here, not the standard output: two files are written");
    }
    const std::string extension = folder_.extension().string();
    std::error_code error;
    if (extension == ".prototxt" || extension == ".caffemodel") {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("-o takes a folder here, for deploy.prototxt and weights.caffemodel; ", folder,
                  " has the name of a file"));
    }
    if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) {
      Fail(ErrorCode::kInvalidArgument, "is a file; -o takes a folder, for two files",
           {.file = folder});
    }
    RemoveAbandoned(net_.string());
    RemoveAbandoned(weights_.string());
    for (const fs::path& path : {net_, weights_, fs::path(weights_) += ".h5"}) {
      if (FLAGS_force || !fs::exists(path, error)) continue;
      Fail(ErrorCode::kInvalidArgument, "exists already; give --force to overwrite it",
           {.file = path.string()});
    }
  }
  ~Outputs() {
    std::error_code ignored;
    if (kept_) return;
    if (!weights_made_.empty()) fs::remove(weights_made_, ignored);
    if (made_) fs::remove(folder_, ignored);  // only if it is empty
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  // Calls `check` with the names of the files before they get their final ones.
  void Write(const NetParameter& net, const std::string& text, const Check& check) {
    std::error_code error;
    made_ = fs::create_directories(folder_, error);
    if (error) {
      Fail(ErrorCode::kIoFailure, StrCat("cannot be made: ", error.message()),
           {.file = folder_.string()});
    }
    has_weights_ = std::ranges::any_of(
        net.layer(), [](const LayerParameter& layer) { return layer.blobs_size() > 0; });
    AtomicFile net_file(net_.string(), text.size());
    net_file.Write(text);
    if (net.ByteSizeLong() > kMostCaffemodel) weights_ += ".h5";
    if (has_weights_) {
      weights_made_ = TemporaryPath(weights_.string());
      weights_.extension() == ".h5" ? WriteCaffemodelHdf5(net, weights_made_)
                                    : WriteCaffemodel(net, weights_made_);
    }
    EndIfInterrupted();
    check(net_file.temporary(), weights_made_);
    EndIfInterrupted();
    if (has_weights_) fs::rename(weights_made_, weights_);
    net_file.Commit();
    kept_ = true;
    RemoveOtherWeights();
  }

  // Returns the files for a message. A net without parameters has no weights.
  std::string Names() const {
    return has_weights_ ? StrCat(net_.string(), " and ", weights_.string()) : net_.string();
  }

 private:
  // Removes those of an earlier import that --force replaces.
  void RemoveOtherWeights() const {
    for (const char* name : {"weights.caffemodel", "weights.caffemodel.h5"}) {
      std::error_code ignored;
      if (!has_weights_ || folder_ / name != weights_) fs::remove(folder_ / name, ignored);
    }
  }

  const fs::path folder_;
  const fs::path net_;
  fs::path weights_;
  bool made_ = false;
  bool has_weights_ = false;
  std::string weights_made_;  // the temporary file
  bool kept_ = false;
};

// Returns the flags of deploy that the metadata of a model of Crema stands for, and that the net
// does not say.
std::string NoteOfCard(const ModelCard& card, const NetParameter& net) {
  std::string flags;
  if (!net.has_preprocessing()) flags = FlagsOfPreprocessing(card.preprocessing);
  if (!card.labels.empty()) flags += " --labels=FILE";
  return flags.empty() ? "" : StrCat("deploy takes this net with", flags);
}

int Import(const std::string& model, const std::string& folder) {
  ImportOptions options;
  options.shapes = ParseShapes(FLAGS_shape);
  options.dialect = FLAGS_dialect;
  { const Outputs checked(folder); }  // refuses the folder before the work
  ImportedNet imported = ImportOnnx(model, options);
  std::string names;
  if (options.dialect.empty() && imported.card.preprocessing != Preprocessing{}) {
    StorePreprocessing(imported.card.preprocessing, imported.net.mutable_preprocessing());
  }
  const std::string card = NoteOfCard(imported.card, imported.net);
  if (!card.empty()) imported.notes.push_back(card);
  const auto check = [&](const std::string& net, const std::string& weights) {
    if (options.dialect.empty()) return;
    options.dialect.clear();
    CheckSameNets(ImportOnnx(model, options).net, ReadNet(net), weights, kTolerance);
  };
  WithoutLeftovers([&] {
    Outputs outputs(folder);
    outputs.Write(imported.net, TextOf(imported.net, model, imported.notes), check);
    names = outputs.Names();
    return 0;
  });
  for (const std::string& note : imported.notes) ToolLog().Write(Severity::kInfo, note);
  std::printf("%s: %d layers\n", names.c_str(), imported.net.layer_size());
  return 0;
}

}  // namespace

int ImportOnnxModel(const std::string& model, const std::string& folder) {
  RequireFlag(folder, "o");
  return Import(model, folder);
}

}  // namespace crema::tools
