// What the actions of `deploy` share: flags, the list of images, how pixels are treated.
#pragma once

#include <gflags/gflags.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/lines.h"
#include "core/error.h"

DECLARE_string(model);
DECLARE_string(weights);
DECLARE_string(labels);
DECLARE_double(scale);
DECLARE_bool(invert);
DECLARE_bool(json);
DECLARE_int32(threads);

namespace crema::tools {

// The images that the arguments and --list name; those of a folder sorted. Throws kInvalidArgument
// when there are none.
std::vector<std::string> ImagesOf(const std::vector<std::string>& arguments);

// The numbers of --mean, one for each channel; empty when it was not given. Throws
// kInvalidArgument.
std::vector<float> MeanNumbers(int channels);

// Throws kInvalidArgument unless --model, --weights and a sensible --scale were given.
void CheckCommonFlags();

struct Answer {
  std::string text;
  std::optional<Problem> problem;
};

// Answers one image: file bytes and name in, text out.
using Answerer = std::function<std::string(const std::string& bytes, const std::string& image)>;

// Calls an answerer for each image; every thread (--threads) makes its own. Answers keep the order
// of the images; what one image causes is its answer.
std::vector<Answer> AnswerAll(const std::vector<std::string>& images,
                              const std::function<Answerer()>& make_answerer);

// Prints the answers; returns the exit code.
int PrintAnswers(const std::vector<Answer>& answers);

}  // namespace crema::tools
