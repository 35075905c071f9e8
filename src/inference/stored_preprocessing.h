// Preprocessing in nets and .crema files.
#pragma once

#include "core/error.h"
#include "format/prototxt.h"
#include "inference/preprocessing.h"

namespace crema {

class PreprocessingParameter;

// Throws `code` at `where` for names and sizes that this version does not know;
// FindPreprocessingProblem finds what does not fit an input.
Preprocessing ReadPreprocessing(const PreprocessingParameter& from, ErrorCode code,
                                const Where& where);
// Returns that of a net; the defaults if it has none. Throws kInvalidArgument.
Preprocessing PreprocessingIn(const NetFile& net);
// Sets the fields that differ from their defaults, so that older versions can read files with those
// of format 1; scale, invert and rgb are always set.
void StorePreprocessing(const Preprocessing& from, PreprocessingParameter* to);

}  // namespace crema
