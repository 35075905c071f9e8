// Finding out while planning what the samples of a data set are like, though the first may be bad.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/error.h"
#include "crema.pb.h"
#include "data/transform/transformer.h"
#include "graph/layer.h"

namespace crema {

// Counts the bad samples at the begin of a data set. Where on_bad_sample is ERROR the first of them
// ends the search; else one more than max_bad, 100 where that is 0, or the last of the data set.
class FirstSampleSearch {
 public:
  // `count` says how many samples there are; it is asked only where the first is bad.
  FirstSampleSearch(const PipelineParameter& param, std::function<uint64_t()> count)
      : param_(param), count_(std::move(count)) {}

  // Requires: `error` is being handled. Rethrows it unless it is about the sample and another one
  // may be looked at. In the end throws what was wrong with the first.
  void NoteBad(const Error& error);

 private:
  const PipelineParameter& param_;
  const std::function<uint64_t()> count_;
  std::optional<Problem> first_;
  uint64_t bad_ = 0;
};

// What `look` gives for the first sample, 0, 1, ..., about which it throws nothing.
template <typename Look>
auto LookForFirst(const PipelineParameter& param, const std::function<uint64_t()>& count,
                  Look&& look) {
  FirstSampleSearch search(param, count);
  for (uint64_t sample = 0;; ++sample) {
    try {
      return look(sample);
    } catch (const Error& error) {
      search.NoteBad(error);
    }
  }
}

// Fails for an image that does not fit, such as one that is smaller than the crop: the text of the
// net is wrong or, where bad samples are passed over, the sample, which `name` names.
[[noreturn]] void FailMisfit(const Layer& layer, const Transformer::Misfit& misfit,
                             const std::string& name);

}  // namespace crema
