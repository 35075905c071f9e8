// --input: reads model inputs from array files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "inference/model.h"
#include "inference/model_batches.h"

namespace crema::tools {

// Returns true if --input was given.
bool HasInputFiles();

// Returns the paths of --input.
std::vector<std::string> InputFiles();

// Returns the shapes of the arrays of --input, and of --recording if it is read, by the names of
// their inputs; "" is that of an array without a name. Of --batch samples if that is given. Ignores
// what cannot be read.
std::map<std::string, Shape> ShapesOfInputFiles();

// Returns the model's inputs from --input=NAME=FILE or --input=FILE, both repeatable. Ignores other
// names in a file with several arrays. Throws kInvalidArgument for inputs that are missing,
// duplicate, or of another type or shape than the model's, and what ReadArrays throws.
std::vector<NamedOutput> InputsOfFlags(const Model& model);

// Returns for example "data float32 N x 3 x 224 x 224".
std::string Describe(const BlobInfo& blob);

// Returns all values of a repeatable flag, split at commas.
std::vector<std::string> ValuesOfFlag(const std::string& flag);

}  // namespace crema::tools
