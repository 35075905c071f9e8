// Flags about the model and about pixels, shared by the actions of `deploy`.
#pragma once

#include <gflags/gflags.h>

#include <memory>
#include <string>
#include <vector>

#include "common/log.h"
#include "deploy/training.h"
#include "format/prototxt.h"
#include "inference/image_model.h"
#include "inference/model.h"
#include "runtime/weights.h"

DECLARE_string(model);
DECLARE_string(run);
DECLARE_string(solver);
DECLARE_string(weights);
DECLARE_string(labels);
DECLARE_string(output);
DECLARE_string(precision);
DECLARE_bool(json);
DECLARE_string(threads);
DECLARE_int32(batch);

namespace crema::tools {

// Returns true if a path is a file of `deploy export`.
bool IsModelFile(const std::string& path);

// Returns true if a path is an ONNX model.
bool IsOnnxFile(const std::string& path);

// --model or --against with its related flags.
struct ModelNames {
  std::string model;
  std::string weights;                            // for a prototxt
  std::string precision;                          // for a prototxt; empty: as in the net
  std::shared_ptr<const Training> training = {};  // --run or --solver, which names the others
};

// Returns --model, --weights, --precision, or those of --run or --solver, without weights if they
// are not needed. A net may need no weights, which MakeModel checks. Throws kInvalidArgument for
// conflicting flags, and the errors of reading the training.
ModelNames ModelOfFlags(bool needs_weights = true);
// Returns the net of --model, --tail, --shape and --precision; for a training net, the deploy net
// made from it. Completes the card: that of an ONNX model that Crema wrote, the pixels and class
// names of a training. Requires: a prototxt or an ONNX model.
NetFile NetOfFlags(const ModelNames& names, const Registry& registry, ModelCard* card);

// `threads` is per runner.
ModelOptions ModelOptionsOfFlags(int threads = 1);

// Opens a .crema file, or a net with its weights.
std::shared_ptr<const Model> OpenModel(const ModelNames& names, const Registry& registry,
                                       const ModelOptions& options);
// Makes a model from a net that was changed after NetOfFlags.
std::shared_ptr<const Model> MakeModel(const NetFile& net, const ModelNames& names,
                                       const ModelCard& card, const Registry& registry,
                                       const ModelOptions& options, LogSink& log = ToolLog());

// Returns the model's preprocessing, overridden by the flags of common/preprocessing_flags.h.
// Throws kInvalidArgument if it does not fit the input.
Preprocessing PreprocessingOfFlags(const ImageModel& model);

// Warns if the head of a detector is one whose published models take other values than 0 to 255,
// and these go in.
void WarnOfPixels(const ImageModel& model, const Preprocessing& preprocessing);

// Returns the labels of --labels. Throws kInvalidArgument if the file has none. Requires: the flag
// is set.
std::vector<std::string> LabelsOfFile();
// Returns the labels of --labels, else those of the model; may be empty. Throws kInvalidArgument
// unless their number equals `classes` (`what` follows the number in messages; 0: any number).
std::vector<std::string> LabelsOfFlags(const Model& model, int classes, const std::string& what);

// Returns the label of a class, or its number.
std::string LabelOf(const std::vector<std::string>& labels, int index);

// Parses "1,2,8": numbers within the given bounds. Throws kInvalidArgument.
std::vector<int> NumbersOf(const std::string& flag, const std::string& text, int least,
                           int most = 1 << 20);
// Return the single value of --threads, with 0 replaced by the number of processors, and of
// --batch. Throw kInvalidArgument.
int ThreadsOfFlag();
int BatchOfFlag();

// Digits after the decimal point.
std::string Fixed(double value, int decimals);

}  // namespace crema::tools
