#include "layers/input/first_sample.h"

#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/pipeline/bad_samples.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

bool PassesOver(const PipelineParameter& param) {
  return param.on_bad_sample() != PipelineParameter::ERROR;
}

}  // namespace

void FirstSampleSearch::NoteBad(const Error& error) {
  constexpr uint64_t kMost = 99;
  if (!PassesOver(param_) || !IsAboutSample(error)) throw;
  if (!first_) first_ = error.problems().front();
  ++bad_;
  const uint64_t count = count_();
  if (bad_ < count && bad_ <= (param_.max_bad() > 0 ? param_.max_bad() : kMost)) return;
  if (bad_ == 1) throw;
  AddFileContext(&*first_);
  const std::string what = bad_ == count ? StrCat("all ", count, " samples are bad")
                                         : StrCat("the first ", bad_, " samples are bad");
  const std::string bound =
      bad_ < count && param_.max_bad() > 0 ? StrCat(", and max_bad allows ", param_.max_bad()) : "";
  first_->message = StrCat(what, bound, "; the first one: ", first_->message);
  throw Error(*std::exchange(first_, std::nullopt));
}

void FailMisfit(const Layer& layer, const Transformer::Misfit& misfit, const std::string& name) {
  if (!PassesOver(layer.param().pipeline_param())) FailField(layer, misfit.field, misfit.message);
  Where where{.layer = layer.param().name()};
  where.field = misfit.field;
  Fail(ErrorCode::kDataLoss, StrCat(name, ": ", misfit.message), std::move(where));
}

}  // namespace crema
