#include "new/split.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/pipeline/shuffle.h"

namespace crema::tools {
namespace {

size_t TestCount(size_t pictures, double share) {
  if (pictures < 2) return 0;
  const auto count = static_cast<size_t>(std::lround(static_cast<double>(pictures) * share));
  return std::clamp<size_t>(count, 1, pictures - 1);
}

}  // namespace

PictureSet TakeTestPictures(double share, uint64_t seed, PictureSet* train) {
  std::map<std::string, std::vector<size_t>> by_class;
  for (size_t i = 0; i < train->pictures.size(); ++i) {
    by_class[train->pictures[i].label].push_back(i);
  }
  std::vector<bool> is_test(train->pictures.size(), false);
  for (const auto& [name, members] : by_class) {
    const RandomStream random(seed, HashName("split " + name));
    const std::vector<uint32_t> order = Permutation(static_cast<uint32_t>(members.size()), random);
    for (size_t i = 0; i < TestCount(members.size(), share); ++i) {
      is_test[members[order[i]]] = true;
    }
  }
  PictureSet test = *train;
  test.pictures.clear();
  std::vector<LabelledPicture> rest;
  for (size_t i = 0; i < is_test.size(); ++i) {
    (is_test[i] ? test.pictures : rest).push_back(std::move(train->pictures[i]));
  }
  train->pictures = std::move(rest);
  if (test.pictures.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", train->root,
                "' has no class with two pictures, so none can be kept for "
                "tests: add pictures, or give test pictures with --test"));
  }
  return test;
}

}  // namespace crema::tools
