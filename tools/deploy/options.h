// What the actions of `deploy` share: flags about the model and about pixels.
#pragma once

#include <gflags/gflags.h>

#include <memory>
#include <string>
#include <vector>

#include "common/log.h"
#include "format/prototxt.h"
#include "inference/image_model.h"
#include "inference/model.h"
#include "runtime/weights_files.h"

DECLARE_string(model);
DECLARE_string(weights);
DECLARE_string(labels);
DECLARE_string(output);
DECLARE_string(precision);
DECLARE_bool(json);
DECLARE_string(threads);
DECLARE_int32(batch);

namespace crema::tools {

// Whether the flag was written on the command line.
bool IsGiven(const char* flag);

// Whether a path is one of `deploy export`'s files.
bool IsModelFile(const std::string& path);

// --model or --against with what belongs to it.
struct ModelNames {
  std::string model;
  std::string weights;    // of a prototxt
  std::string precision;  // of a prototxt; empty: as the net says
};

// --model, --weights, --precision; a net may need no weights, which MakeModel finds out. Throws
// kInvalidArgument where they do not belong together.
ModelNames ModelOfFlags();
// The net that --model, --tail and --precision name. Requires: a prototxt.
NetFile NetOfFlags(const ModelNames& names);

// `threads` are those of one runner.
ModelOptions ModelOptionsOfFlags(int threads = 1);

// A .crema file, or a net with its weights.
std::shared_ptr<const Model> OpenModel(const ModelNames& names, const Registry& registry,
                                       const ModelOptions& options);
// A net that was changed after NetOfFlags, with its weights.
std::shared_ptr<const Model> MakeModel(const NetFile& net, const ModelNames& names,
                                       const ModelCard& card, const Registry& registry,
                                       const ModelOptions& options, LogSink& log = ToolLog());

// That of the model, and what --mean, --scale, --invert and --rgb say instead. Throws
// kInvalidArgument for a mean that does not fit.
Preprocessing PreprocessingOfFlags(const ImageModel& model);

// Those of --labels. Throws kInvalidArgument where there are none. Requires: it was given.
std::vector<std::string> LabelsOfFile();
// Those of --labels, else those of the model; may be empty. Throws kInvalidArgument unless there
// are as many as classes (`what` follows the number in messages).
std::vector<std::string> LabelsOfFlags(const Model& model, int classes, const std::string& what);

// The label of a class, or its number.
std::string LabelOf(const std::vector<std::string>& labels, int index);

// "1,2,8": numbers of at least that and at most that. Throws kInvalidArgument.
std::vector<int> NumbersOf(const std::string& flag, const std::string& text, int least,
                           int most = 1 << 20);
// The one number of --threads, 0 replaced by the number of processors; that of --batch. Throw
// kInvalidArgument.
int ThreadsOfFlag();
int BatchOfFlag();

// Decimals behind the point.
std::string Fixed(double value, int decimals);

}  // namespace crema::tools
