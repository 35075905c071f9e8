#include "new/job_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/shell_word.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/lists/class_names.h"
#include "format/file.h"
#include "format/prototxt.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

// The batch for which the rate of the model is meant.
double BatchOfModel(const ZooModel& model) {
  const LayerParameter& data = model.net.layer(0);
  const uint32_t batch = data.data_param().batch_size();
  return std::max<double>(1, batch) * std::max(1, model.solver.iter_size());
}

// Two significant digits.
float Rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return static_cast<float>(std::round(rate / unit) * unit);
}

std::string LabelLine(const PictureSet& set, const LabelledPicture& picture) {
  if (picture.name.find('\n') != std::string::npos) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the name '", picture.name, "' has a line break: rename the file"));
  }
  // The label maps have the labels of segment; its list must have one all the same.
  if (set.task == PictureTask::kSegment) return picture.name + " 0\n";
  const auto found = std::ranges::find(set.classes, picture.label);
  CREMA_CHECK(found != set.classes.end());
  return StrCat(picture.name, " ", found - set.classes.begin(), "\n");
}

std::string_view Purpose(PictureTask task) {
  if (task == PictureTask::kDetect) return "finds objects of";
  return task == PictureTask::kSegment ? "divides pictures into" : "tells apart";
}

// The name of the folder.
std::string NameOf(const Job& job) {
  return fs::absolute(job.folder).lexically_normal().parent_path().filename().string();
}

std::string Sample(const Job& job) { return job.test.PathOf(job.test.pictures.front()); }

std::vector<std::pair<std::string, std::string>> FilesOf(PictureTask task) {
  std::vector<std::pair<std::string, std::string>> files = {
      {"train_val.prototxt", "the net, and what it reads"},
      {"solver.prototxt", "how it learns: rate, epochs, tests"},
      {"labels.txt", "the classes, a line each"},
      {"runs/", "weights and records of training"}};
  if (task == PictureTask::kClassify) {
    files.emplace_back("train.txt, test.txt", "pictures and labels, a line each");
  } else if (task == PictureTask::kDetect) {
    files.emplace_back("train_lmdb, test_lmdb", "pictures with their boxes");
    files.emplace_back("labelmap.prototxt", "the numbers of the classes in them");
  } else {
    files.emplace_back("train_lmdb", "pictures with their label maps as fourth channel");
    files.emplace_back("test.txt, test_labels_lmdb", "test pictures and their label maps");
  }
  return files;
}

}  // namespace

NewFolder::NewFolder(const std::string& path) : folder_(path) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // a slash at the end
  std::error_code error;
  if (fs::exists(folder_, error)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("-o: '", path, "' exists already; choose another name"));
  }
  for (fs::path above = folder_.parent_path(); !above.empty() && !fs::exists(above, error);
       above = above.parent_path()) {
    above_.push_back(above);
  }
  fs::create_directories(folder_, error);
  if (error) {
    Fail(ErrorCode::kIoFailure, StrCat("cannot make the folder '", path, "': ", error.message()));
  }
}

NewFolder::~NewFolder() {
  if (keep_) return;
  std::error_code error;
  fs::remove_all(folder_, error);
  // Another command may have made a folder in one of these since.
  for (const fs::path& above : above_) {
    if (!fs::remove(above, error)) return;
  }
}

SolverParameter MakeJobSolver(const Job& job, uint64_t seed) {
  const SolverParameter& model = job.model.solver;
  constexpr double kFineTuning = 0.1;  // of the rate that random weights need
  const double rate = model.base_lr() * job.batch / BatchOfModel(job.model) *
                      (job.weights.empty() ? 1 : kFineTuning);
  SolverParameter solver;
  solver.set_net(job.File("train_val.prototxt"));
  if (!job.weights.empty()) solver.add_weights(job.weights);
  if (model.has_type()) solver.set_type(model.type());
  solver.set_base_lr(Rounded(rate));
  solver.set_lr_policy("poly");
  solver.set_power(1);
  if (model.has_momentum()) solver.set_momentum(model.momentum());
  if (model.has_momentum2()) solver.set_momentum2(model.momentum2());
  if (model.has_weight_decay()) solver.set_weight_decay(model.weight_decay());
  if (model.has_clip_gradients()) solver.set_clip_gradients(model.clip_gradients());
  solver.set_max_epoch(job.epochs);
  solver.set_test_interval_epoch(1);
  solver.set_test_initialization(false);
  const auto steps = static_cast<int>(job.train.pictures.size()) / job.batch;
  solver.set_display(std::clamp(steps / 2, 5, 100));
  solver.set_average_loss(std::clamp(steps / 2, 5, 100));
  solver.set_snapshot_epoch(1);
  solver.set_snapshot_keep(1);
  solver.mutable_snapshot_best();
  solver.set_snapshot_prefix(job.File("runs/" + job.model.name));
  solver.set_random_seed(static_cast<int64_t>(seed));
  if (job.task() == PictureTask::kDetect) {
    solver.set_eval_type("detection");
    solver.set_ap_version("Integral");
    solver.mutable_snapshot_best()->set_metric("detection_eval");
  }
  return solver;
}

void WriteNet(const Job& job, const NetParameter& net) {
  WriteFileAtomically(job.File("train_val.prototxt"),
                      StrCat("# The net of ", job.model.folder, " for the ",
                             job.train.classes.size(), " classes of ", job.train.root,
                             ".\n# Paths begin at the folder in which `crema new` "
                             "ran.\n",
                             PrintText(net)));
}

void WriteSolver(const Job& job, const SolverParameter& solver) {
  WriteFileAtomically(
      job.File("solver.prototxt"),
      StrCat("# Train with: crema train --solver=", job.File("solver.prototxt"), "\n",
             "# One epoch are the ", job.train.pictures.size(),
             " training pictures. The rate falls "
             "to 0 over the epochs.\n# Change fields here, or with --set FIELD=VALUE.\n",
             PrintText(solver)));
}

void WriteClassNames(const Job& job) {
  std::string text = job.task() == PictureTask::kDetect ? "background\n" : "";
  for (const std::string& name : job.train.classes) text += name + "\n";
  WriteFileAtomically(job.File(kClassNamesFile), text);
}

void WriteImageList(const Job& job, const PictureSet& set, const std::string& name) {
  std::string text;
  for (const LabelledPicture& picture : set.pictures) text += LabelLine(job.train, picture);
  // The set's own names, of which the classes are those of the training set.
  WriteFileAtomically(job.File(name), text);
}

std::vector<std::string> NextCommands(const Job& job) {
  const std::string run = job.File("runs/" + job.model.name);
  const std::string served = job.File("service/" + NameOf(job) + "/1");
  const std::string model = ForShell(served + "/model.crema");
  return {
      "crema train " + ForShell("--solver=" + job.File("solver.prototxt")),
      StrCat("crema evaluate ", ForShell("--model=" + job.File("train_val.prototxt")), " ",
             ForShell(StrCat("--weights=", run, "_best.caffemodel")), " ",
             ForShell("--labels=" + job.File(kClassNamesFile)), " ",
             ForShell(StrCat("--report=", run, "_run/evaluation"))),
      StrCat("crema report ", ForShell(run + "_run"), " -o ", ForShell(job.File("report.html"))),
      "mkdir -p " + ForShell(served),
      StrCat("crema deploy export ", ForShell(StrCat("--run=", run, "_run")), " -o ", model),
      StrCat("crema deploy ", NameOf(job.task()), " --model=", model, " ", ForShell(Sample(job))),
      "crema serve " + ForShell("--repository=" + job.File("service")),
      StrCat("curl --data-binary ", ForShell("@" + Sample(job)), " http://127.0.0.1:8000/v1/",
             NameOf(job.task()))};
}

void WriteReadme(const Job& job) {
  constexpr std::array<const char*, 8> kPurposes = {
      "train; Ctrl-C stops, the same command with --resume=auto continues",
      "measure the best weights on the test pictures, with a folder of results",
      "curves and results as one page",
      "the folder of a model and its version, as the server wants it",
      "one file with net, weights, class names and preprocessing",
      "try it",
      "answer requests at http://127.0.0.1:8000, with a page to try it",
      "ask, from another terminal"};
  const std::vector<std::string> commands = NextCommands(job);
  std::string text = StrCat(
      "# ", NameOf(job), "\n\nA net that ", Purpose(job.task()), " ", job.train.classes.size(),
      " classes: ", job.train.pictures.size(), " pictures to train, ", job.test.pictures.size(),
      " to test, from ", job.train.layout, " in ", job.train.root, ". The net is ",
      job.model.folder, " with pictures of ", job.width, "x", job.height,
      job.gray() ? ", gray" : ", colors", job.weights.empty() ? "" : ", from " + job.weights,
      ".\n\nRun these commands in the folder in which `crema new` ran; paths begin there:\n");
  for (size_t i = 0; i < commands.size(); ++i) {
    text += StrCat("\n    # ", kPurposes[i], "\n    ", commands[i], "\n");
  }
  text += "\n| File | Contents |\n|---|---|\n";
  for (const auto& [file, contents] : FilesOf(job.task())) {
    text += StrCat("| ", file, " | ", contents, " |\n");
  }
  WriteFileAtomically(job.File("README.md"), text);
}

}  // namespace crema::tools
