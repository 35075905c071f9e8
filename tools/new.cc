// new: makes a job (net, solver, lists, class names) from one's own pictures.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/bad_flag.h"
#include "common/interrupt.h"
#include "common/log.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "new/job.h"
#include "new/job_files.h"
#include "new/job_net.h"
#include "new/looks.h"
#include "new/pictures.h"
#include "new/record_sets.h"
#include "new/split.h"
#include "new/zoo.h"
#include "solvers/check_run.h"

DEFINE_string(images, "",
              "[Input PATH required #1] the training pictures: a folder with a folder for each "
              "class, or a .csv of `path,class` lines (docs/new.md has all layouts)");
DEFINE_string(test, "", "[Input PATH] the test pictures, in the same layout; without it, --split");
DEFINE_double(
    split, 0.1,
    "[Input] the share of --images that is kept for tests, above 0 and below 1; classify: of "
    "each class");
DEFINE_string(task, "",
              "[Input classify|detect|segment] default: as the layout of the pictures says");
DEFINE_string(model, "",
              "[Run NAME|FOLDER] a net of models/ or a folder like those; default: one that fits "
              "the pictures");
DEFINE_string(weights, "",
              "[Input FILE] caffemodel to start from; layers for other classes start anew");
DEFINE_string(size, "",
              "[Run SIZE] input of the net in pixels: 128, or 128x96 (width x height); default: "
              "that of the model");
DEFINE_int32(epochs, 0, "[Run] passes over the training pictures; 0: enough for about 1500 steps");
DEFINE_int32(batch, 0, "[Run] pictures in a step; 0: as the model and the pictures suggest");
DEFINE_bool(
    mirror, true,
    "[Run] mirror training pictures at random: classify and detect if the model does, segment "
    "always; --nomirror for text and digits");
DEFINE_uint64(seed, 1, "[Run] of the split and of training");
DEFINE_string(o, "", "[Output FOLDER required] the new folder of the job");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema new IMAGES [--test=PATH] -o JOB [flags]\n"
    "\n"
    "Makes a job from your own pictures: a net for their classes, a solver, lists of training and\n"
    "test pictures, class names, and a README.md with the commands that train, evaluate, export\n"
    "and serve it. Boxes (PASCAL VOC, COCO, YOLO) become a detector, and label maps a net that\n"
    "segments.\n"
    "\n"
    "Examples:\n"
    "crema new train/ -o job\n"
    "crema new train/ --test=test/ --model=mobilenet_v2 --weights=w.caffemodel -o job";

// The largest input that counts as small, and the default batches of small and large inputs.
constexpr int kSmallSide = 64;
constexpr int kSmallBatch = 64;
constexpr int kLargeBatch = 16;

std::optional<PictureTask> TaskOfFlag() {
  if (FLAGS_task.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const PictureTask task :
       {PictureTask::kClassify, PictureTask::kDetect, PictureTask::kSegment}) {
    if (FLAGS_task == NameOf(task)) return task;
    names.emplace_back(NameOf(task));
  }
  Fail(ErrorCode::kInvalidArgument, StrCat("--task: '", FLAGS_task, "' is not one of ",
                                           Join(names, ", "), DidYouMean(FLAGS_task, names)));
}

struct InputSize {
  int width = 0;
  int height = 0;
};

// Returns --size: "128" or "128x96".
std::optional<InputSize> SizeOfFlag() {
  if (FLAGS_size.empty()) return std::nullopt;
  InputSize size;
  char rest = 0;
  const int parts = std::sscanf(FLAGS_size.c_str(), "%dx%d%c", &size.width, &size.height, &rest);
  if (parts == 1) size.height = size.width;
  const bool whole = parts == 2 || (parts == 1 && FLAGS_size == std::to_string(size.width));
  if (whole && size.height == std::clamp(size.height, 8, 4096) &&
      size.width == std::clamp(size.width, 8, 4096)) {
    return size;
  }
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--size: '", FLAGS_size, "' is no size like 128 or 128x96, from 8 to 4096"));
}

void CheckFlags() {
  RequireFlag(FLAGS_images, "images");
  RequireFlag(FLAGS_o, "o");
  if (!(FLAGS_split > 0 && FLAGS_split < 1)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--split is ", FLAGS_split, "; use a share above 0 and below 1, as 0.1"));
  }
  if (!FLAGS_test.empty() && IsGiven("split")) {
    Fail(ErrorCode::kInvalidArgument,
         "--test and --split contradict each other: give test pictures, or a share of --images");
  }
  for (const auto& [name, value] : {std::pair{"epochs", FLAGS_epochs}, {"batch", FLAGS_batch}}) {
    if (value == std::clamp(value, 0, 100000)) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", name, " is ", value, ", but must be 0 to 100000"));
  }
  TaskOfFlag();
  SizeOfFlag();
  if (!FLAGS_weights.empty()) ReadFileStart(FLAGS_weights, 1);  // reports a missing file
}

void CheckTrainClasses(const PictureSet& set) {
  if (set.classes.size() > 1 || set.task == PictureTask::kDetect) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", set.root, "' has one class only, '", Join(set.classes, ""),
              "': a net needs at least two to tell apart"));
}

// Refuses test pictures of classes that are not trained, or that have other numbers in label maps.
void CheckTestClasses(const PictureSet& train, const PictureSet& test) {
  for (const std::string& name : test.classes) {
    if (std::ranges::find(train.classes, name) != train.classes.end()) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--test: the class '", name, "' is not among those of --images, which are ",
                Join(train.classes, ", "), DidYouMean(name, train.classes)));
  }
  if (train.task != PictureTask::kSegment) return;  // others have names for labels
  if (std::equal(test.classes.begin(), test.classes.end(), train.classes.begin())) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--test: the classes are ", Join(test.classes, ", "), ", but those of --images ",
              Join(train.classes, ", "),
              ": label maps hold numbers, so the order must be the same"));
}

void CheckClasses(const Job& job, bool has_test) {
  CheckTrainClasses(job.train);
  if (has_test) CheckTestClasses(job.train, job.test);
}

void Warn(const std::string& text) { ToolLog().Write(Severity::kWarning, text); }

// Counts the pictures of each class: those with the label, or with a box of it.
std::map<std::string, int> CountsOf(const PictureSet& set) {
  std::map<std::string, int> counts;
  for (const LabelledPicture& picture : set.pictures) {
    ++counts[picture.label];
    std::set<std::string> names;
    for (const BoxObject& object : picture.boxes.objects) names.insert(object.name);
    for (const std::string& name : names) ++counts[name];
  }
  return counts;
}

void WarnAboutClasses(const PictureSet& train, const PictureSet& test) {
  if (train.task == PictureTask::kSegment) return;  // labels of pixels are not counted
  const std::map<std::string, int> trained = CountsOf(train);
  const std::map<std::string, int> tested = CountsOf(test);
  for (const std::string& name : train.classes) {
    if (!trained.contains(name)) Warn(StrCat("class '", name, "' has no training pictures"));
    if (!tested.contains(name)) {
      Warn(StrCat("class '", name, "' has no test pictures: no test measures it"));
    }
  }
}

std::string DefaultModel(PictureTask task, const Looks& looks) {
  if (task == PictureTask::kDetect) return "ssd160";
  if (task == PictureTask::kSegment) return "unet128";
  if (looks.typical_side > kSmallSide) return "mobilenet_v2";
  return looks.gray ? "lenet" : "cifar10_quick";
}

// Detectors and segmenters of the zoo are small; they take the double for larger pictures.
void SetSize(const std::optional<InputSize>& size, Job* job) {
  const bool own = FLAGS_model.empty() && job->task() != PictureTask::kClassify;
  const int factor = own && job->looks.typical_side > 2 * job->model.width ? 2 : 1;
  job->height = size ? size->height : job->model.height * factor;
  job->width = size ? size->width : job->model.width * factor;
}

int Pictures(const PictureSet& set) { return static_cast<int>(set.pictures.size()); }

void SetLengths(Job* job) {
  const bool small = std::max(job->height, job->width) <= kSmallSide;
  const auto of_model = static_cast<int>(job->model.net.layer(0).data_param().batch_size());
  const int most = std::min(small ? kSmallBatch : kLargeBatch, std::max(of_model, 1));
  // At least eight steps in an epoch.
  job->batch = FLAGS_batch > 0 ? FLAGS_batch : std::clamp(Pictures(job->train) / 8, 1, most);
  job->test_batch = std::min(most, Pictures(job->test));
  constexpr int kSteps = 1500;
  const int epochs = kSteps * job->batch / Pictures(job->train) + 1;
  job->epochs = FLAGS_epochs > 0 ? FLAGS_epochs : std::clamp(epochs, 10, 100);
}

Job MakeJob() {
  Job job;
  job.folder = FLAGS_o.ends_with('/') ? FLAGS_o : FLAGS_o + "/";
  job.weights = FLAGS_weights;
  job.mirror = FLAGS_mirror;
  job.train = ReadPictures(FLAGS_images, "images", TaskOfFlag());
  if (!FLAGS_model.empty()) job.model = ReadZooModel(FLAGS_model, job.train.task);
  std::string test = FLAGS_test;
  if (test.empty() && !IsGiven("split")) {
    test = job.train.tests;
  }
  const bool has_test = !test.empty();
  if (has_test) job.test = ReadPictures(test, "test", job.train.task);
  const bool segments = job.train.task == PictureTask::kSegment;
  if (!segments) CheckClasses(job, has_test);
  if (has_test) LookAtPictures(WorkersOfFlags(), SkipsBad(), &job.test);
  job.looks = LookAtPictures(WorkersOfFlags(), SkipsBad(), &job.train);
  if (segments) CheckClasses(job, has_test);  // without names, the label maps say which there are
  if (!has_test) job.test = TakeTestPictures(FLAGS_split, FLAGS_seed, &job.train);
  WarnAboutClasses(job.train, job.test);
  if (FLAGS_model.empty()) {
    job.model = ReadZooModel(DefaultModel(job.train.task, job.looks), job.train.task);
  }
  SetSize(SizeOfFlag(), &job);
  SetLengths(&job);
  return job;
}

// Builds the nets and reads a batch of each, as train does.
void CheckJob(const SolverParameter& written, const Job& job) {
  SolverFile solver;
  solver.solver = written;
  solver.source.file = job.File("solver.prototxt");
  const WeightsFiles weights{.paths = {written.weights().begin(), written.weights().end()},
                             .missing = MissingLayers::kKeep};
  const CheckReport report = CheckRun(solver, LayersOfFlag(), {.samples = 1, .weights = weights});
  for (const Problem& warning : report.warnings) Warn(ToString(warning));
  if (!report.problems.empty()) throw Error(report.problems);
}

void PrintSummary(const Job& job) {
  std::cout << "Found " << Pictures(job.train) + Pictures(job.test) << " pictures of "
            << job.train.classes.size() << " classes in " << job.train.layout << ": "
            << Pictures(job.train) << " to train, " << Pictures(job.test) << " to test.\n"
            << "The net is " << job.model.name << ", its input " << job.width << "x" << job.height
            << (job.gray() ? ", gray" : ", colors") << "; " << job.epochs
            << (job.epochs == 1 ? " epoch" : " epochs") << " in batches of " << job.batch << ".\n"
            << "Wrote " << job.folder << ". Next (" << job.File("README.md") << " has all):\n"
            << "  " << NextCommands(job).front() << "\n";
}

void WriteData(const Job& job) {
  WriteClassNames(job);
  if (job.task() == PictureTask::kClassify) WriteImageList(job, job.train, "train.txt");
  if (job.task() != PictureTask::kDetect) WriteImageList(job, job.test, "test.txt");
  if (job.task() == PictureTask::kDetect) {
    WriteLabelMap(job);
    WriteBoxRecords(job, job.train, "train_lmdb");
    WriteBoxRecords(job, job.test, "test_lmdb");
  }
  if (job.task() == PictureTask::kSegment) {
    WriteMaskedRecords(job, job.train, "train_lmdb");
    WriteLabelRecords(job, job.test, "test_labels_lmdb");
  }
}

int Run() {
  CheckFlags();
  NewFolder folder(FLAGS_o);
  const Job job = MakeJob();
  const SolverParameter solver = MakeJobSolver(job, FLAGS_seed);
  WriteNet(job, MakeJobNet(job));
  WriteSolver(job, solver);
  WriteData(job);
  CheckJob(solver, job);
  WriteReadme(job);
  EndIfInterrupted();
  folder.Keep();
  PrintSummary(job);
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::WithoutLeftovers(crema::tools::Run);
                               });
}
