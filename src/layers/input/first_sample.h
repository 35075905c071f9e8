// Looks at samples of a data set during planning, even if the first ones are bad.
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

// Counts the bad samples at the beginning of a data set. If on_bad_sample is ERROR, the first one
// ends the search. Otherwise the search ends at one more than max_bad (at 100 if max_bad is 0), or
// at the last sample.
class FirstSampleSearch {
 public:
  // `count` returns the number of samples; it is called only if the first is bad.
  FirstSampleSearch(const PipelineParameter& param, std::function<uint64_t()> count)
      : param_(param), count_(std::move(count)) {}

  // Requires that `error` is being handled. Rethrows it unless it is about the sample and another
  // sample may be looked at. At the end of the search throws the first error.
  void NoteBad(const Error& error);

 private:
  const PipelineParameter& param_;
  const std::function<uint64_t()> count_;
  std::optional<Problem> first_;
  uint64_t bad_ = 0;
};

// Returns look(sample) of the first sample, 0, 1, ..., for which it does not throw.
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

// Fails for an image that does not fit, such as one smaller than the crop. The error names the
// field or, if bad samples are skipped, the sample `name`.
[[noreturn]] void FailMisfit(const Layer& layer, const Transformer::Misfit& misfit,
                             const std::string& name);

}  // namespace crema
