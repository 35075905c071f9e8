// --input: arrays in files, for the inputs of a model.
#pragma once

#include <string>
#include <vector>

#include "inference/model.h"
#include "inference/model_batches.h"

namespace crema::tools {

// Whether --input was given.
bool HasInputFiles();

// The paths that --input names.
std::vector<std::string> InputFiles();

// The arrays of --input=NAME=FILE or --input=FILE, which may be given several times, for the inputs
// of the model; names that are none of its inputs are ignored where a file has several arrays.
// Throws kInvalidArgument for inputs that are missing, twice, or of other elements or axes than the
// model takes, and what ReadArrays throws.
std::vector<NamedOutput> InputsOfFlags(const Model& model);

// "data float32 N x 3 x 224 x 224".
std::string Describe(const BlobInfo& blob);

// Every value of a flag that may be given several times, and their parts between commas.
std::vector<std::string> ValuesOfFlag(const std::string& flag);

}  // namespace crema::tools
