#include "inference/stored_preprocessing.h"

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

Preprocessing ReadPreprocessing(const PreprocessingParameter& from, ErrorCode code,
                                const Where& where) {
  constexpr uint32_t kMost = kMaxResizedSide;
  if (from.short_side() > kMost || from.resize_height() > kMost || from.resize_width() > kMost ||
      from.pad() > 255) {
    Fail(code,
         StrCat("holds a preprocessing that is out of range: sides are 0 to ", kMost,
                ", the padding is 0 to 255"),
         where);
  }
  Preprocessing to{.invert = from.invert(),
                   .scale = from.scale(),
                   .mean = {from.mean().begin(), from.mean().end()},
                   .rgb = from.rgb(),
                   .range = from.range(),
                   .deviation = {from.deviation().begin(), from.deviation().end()},
                   .short_side = static_cast<int>(from.short_side()),
                   .resize_height = static_cast<int>(from.resize_height()),
                   .resize_width = static_cast<int>(from.resize_width()),
                   .pad = static_cast<int>(from.pad()),
                   .ten_crops = from.ten_crops()};
  try {
    if (from.has_fit()) to.fit = ParseFit(from.fit());
    if (from.has_interpolation()) to.interpolation = ParseInterpolation(from.interpolation());
  } catch (const Error& error) {
    Fail(code, error.problems()[0].message, where);
  }
  return to;
}

Preprocessing PreprocessingIn(const NetFile& net) {
  return ReadPreprocessing(net.net.preprocessing(), ErrorCode::kInvalidArgument,
                           net.source.Locate("preprocessing"));
}

void StorePreprocessing(const Preprocessing& from, PreprocessingParameter* to) {
  to->set_invert(from.invert);
  to->set_scale(from.scale);
  to->set_rgb(from.rgb);
  to->mutable_mean()->Add(from.mean.begin(), from.mean.end());
  const Preprocessing defaults;
  if (from.range != defaults.range) to->set_range(from.range);
  to->mutable_deviation()->Add(from.deviation.begin(), from.deviation.end());
  if (from.fit != defaults.fit) to->set_fit(ToString(from.fit));
  if (from.short_side != 0) to->set_short_side(static_cast<uint32_t>(from.short_side));
  if (from.resize_height != 0) to->set_resize_height(static_cast<uint32_t>(from.resize_height));
  if (from.resize_width != 0) to->set_resize_width(static_cast<uint32_t>(from.resize_width));
  if (from.interpolation != defaults.interpolation) {
    to->set_interpolation(ToString(from.interpolation));
  }
  if (from.pad != defaults.pad) to->set_pad(static_cast<uint32_t>(from.pad));
  if (from.ten_crops) to->set_ten_crops(true);
}

}  // namespace crema
