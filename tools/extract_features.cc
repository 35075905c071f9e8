// extract_features: writes the features that a net computes for each sample of its data set.
#include <gflags/gflags.h>

#include <cstdio>
#include <memory>

#include "common/flag_table.h"
#include "common/gpu_flag.h"
#include "common/net_flags.h"
#include "common/output_file.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/features/feature_writer.h"
#include "runtime/evaluate.h"

DEFINE_string(model, "", "[Input FILE] the net with its data layer, a prototxt");
DEFINE_string(weights, "", "[Input FILE] its parameters, a caffemodel");
DEFINE_string(blobs, "", "[Run BLOBS] blobs to write, separated by commas");
DEFINE_string(outputs, "",
              "[Output FILES] a file for each: .npy, .h5, or the folder of a new LMDB");
DEFINE_int64(iterations, 0, "[Run] batches; 0: every sample exactly once");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");
DEFINE_int32(level, 0, "[Expert] NetState.level");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema extract_features --model=NET --weights=FILE --blobs=A,B --outputs=a.npy,b.h5 "
    "[flags]\n"
    "crema extract_features WEIGHTS NET BLOB[,BLOB] DB[,DB] NUM_BATCHES [lmdb|leveldb] [CPU|GPU] "
    "[ID]\n"
    "\n"
    "Writes the values of blobs for each sample of a data set. Runs the TEST phase of the net\n"
    "over its data set; each sample is a row. The second form is Caffe's.\n"
    "\n"
    "Examples:\n"
    "crema extract_features --model=train_val.prototxt --weights=net.caffemodel --blobs=fc7 "
    "--outputs=fc7.npy\n"
    "crema extract_features net.caffemodel train_val.prototxt fc7,prob fc7_lmdb,prob_lmdb 10";

struct Job {
  std::vector<std::string> blobs;
  std::vector<std::unique_ptr<FeatureWriter>> writers;
};

// Converts Caffe's positional arguments to flags. As in Caffe, any word but GPU means the CPU.
void TakeCaffeArguments(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  if (arguments.size() < 5) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected WEIGHTS NET BLOBS OUTPUTS NUM_BATCHES, got ", arguments.size(),
                arguments.size() == 1 ? " argument" : " arguments", "; see --help"));
  }
  FLAGS_weights = arguments[0];
  FLAGS_model = arguments[1];
  FLAGS_blobs = arguments[2];
  FLAGS_outputs = arguments[3];
  if (google::SetCommandLineOption("iterations", arguments[4].c_str()).empty()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", arguments[4], "' is not a number of batches"));
  }
  if (FLAGS_iterations < 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("NUM_BATCHES is ", arguments[4], ", expected 1 or more"));
  }
  if (arguments.size() > 5 && arguments[5] != "lmdb" && arguments[5] != "leveldb") {
    Fail(ErrorCode::kUnsupported,
         StrCat("'", arguments[5],
                "' data sets cannot be written; lmdb, leveldb, .npy and .h5 can"));
  }
  CheckOutputFlags(FlagsOf("extract_features"), {});
  if (arguments.size() > 6 && arguments[6] == "GPU") {
    google::SetCommandLineOption("gpu", arguments.size() > 7 ? arguments[7].c_str() : "0");
  }
}

bool WritesLevelDb(const std::vector<std::string>& arguments) {
  return arguments.size() > 5 && arguments[5] == "leveldb";
}

Job Prepare(bool leveldb) {
  Job job{.blobs = Split(FLAGS_blobs, ','), .writers = {}};
  const std::vector<std::string> outputs = Split(FLAGS_outputs, ',');
  if (outputs.size() != job.blobs.size()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--blobs names ", job.blobs.size(), " and --outputs ",
                                             outputs.size(), "; each blob needs its own file"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    job.writers.push_back(leveldb ? NewRecordFeatureWriter(outputs[i], DataParameter::LEVELDB)
                                  : NewFeatureWriter(outputs[i], job.blobs[i]));
  }
  return job;
}

void WriteBatch(const Session& session, Job* job) {
  for (size_t i = 0; i < job->blobs.size(); ++i) {
    const HostView data(session, session.Data(job->blobs[i]));
    if (data->empty()) {
      std::vector<std::string> names;
      for (const PlannedValue& value : session.plan().values) names.push_back(value.name);
      Fail(ErrorCode::kNotFound,
           StrCat("the net has no blob '", job->blobs[i], "'", DidYouMean(job->blobs[i], names)));
    }
    const Shape& shape = data->shape();
    const ConstTensorView rows(data->raw(), shape.axes() > 0 ? shape : Shape{1}, data->dtype());
    job->writers[i]->Append(rows);
  }
}

int Run(const std::vector<std::string>& arguments) {
  TakeCaffeArguments(arguments);
  RequireFlag(FLAGS_model, "model");
  RequireFlag(FLAGS_weights, "weights");
  RequireFlag(FLAGS_blobs, "blobs");
  RequireFlag(FLAGS_outputs, "outputs");
  if (FLAGS_iterations < 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--iterations is ", FLAGS_iterations, "; use 0 or more"));
  }
  const NetFile net = ReadNet(FLAGS_model);
  const WeightsFiles weights = WeightsOfFlags({FLAGS_weights}, MissingLayers::kError);
  Job job = Prepare(WritesLevelDb(arguments));
  const Evaluation result = Evaluate(
      net, weights, LayersOfFlag(),
      {.iterations = FLAGS_iterations,
       .threads = CheckedThreads(FLAGS_threads),
       .level = FLAGS_level,
       .stages = FLAGS_stage.empty() ? std::vector<std::string>() : Split(FLAGS_stage, ','),
       .log = &ToolLog(),
       .on_batch = [&](const Session& session, int64_t) { WriteBatch(session, &job); },
       .keep_blobs = true,
       .device = DeviceOfFlag()});
  for (const std::unique_ptr<FeatureWriter>& writer : job.writers) writer->Close();
  std::printf("%ld samples\n", result.samples);
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
