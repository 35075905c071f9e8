#include "common/image_flags.h"

#include <gflags/gflags.h>

#include <cstdint>
#include <numeric>

#include "common/bad_flag.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/pipeline/shuffle.h"

DEFINE_bool(gray, false, "[Output] make the images gray");
DEFINE_bool(shuffle, false, "[Output] shuffle the images");
DEFINE_uint64(seed, 1, "[Run] of --shuffle: another seed, another order");
DEFINE_int32(resize_width, 0, "[Output] width that images are resized to, with --resize_height");
DEFINE_int32(resize_height, 0, "[Output] height that images are resized to, with --resize_width");
DEFINE_int32(short_side, 0,
             "[Output] resize so that the shorter side has this length; keeps the aspect");
DEFINE_bool(encoded, false, "[Output] store image files, not pixels");
DEFINE_string(
    encode_type, "",
    "[Output jpg|png] jpg, png, ...: format of the stored image files (implies --encoded)");
DEFINE_int32(quality, 0,
             "[Output] 1 to 100: encode JPEG or WebP with this quality (with --encoded)");

namespace crema::tools {
namespace {

constexpr size_t kMostImages = 99999999;  // keys of eight digits

void CheckSizeFlags() {
  for (const auto& [name, value] : {std::pair{"resize_width", FLAGS_resize_width},
                                    {"resize_height", FLAGS_resize_height},
                                    {"short_side", FLAGS_short_side}}) {
    if (value >= 0 && value <= 65535) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--", name, " is ", value, ", expected 0..65535"));
  }
  if ((FLAGS_resize_width > 0) != (FLAGS_resize_height > 0)) {
    Fail(ErrorCode::kInvalidArgument,
         "--resize_width and --resize_height go together (Caffe does not resize with one of them); "
         "--short_side keeps the aspect");
  }
  if (FLAGS_short_side > 0 && FLAGS_resize_width > 0) {
    Fail(ErrorCode::kInvalidArgument,
         "--short_side and --resize_width, --resize_height contradict each other");
  }
}

}  // namespace

ImageRecordOptions ImageOptionsOfFlags() {
  CheckSizeFlags();
  if (FLAGS_quality < 0 || FLAGS_quality > 100) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--quality is ", FLAGS_quality, ", expected 1..100"));
  }
  const bool encoded = FLAGS_encoded || !FLAGS_encode_type.empty();
  if (FLAGS_quality > 0 && (!encoded || FLAGS_encode_type == "png")) {
    Fail(ErrorCode::kInvalidArgument, "--quality is about JPEG and WebP: add --encode_type=jpg");
  }
  SkipsBad();
  return {.gray = FLAGS_gray,
          .height = FLAGS_resize_height,
          .width = FLAGS_resize_width,
          .short_side = FLAGS_short_side,
          .encoded = encoded,
          .encode_type = FLAGS_encode_type,
          .quality = FLAGS_quality};
}

std::string DescribeImageFlags() {
  return StrCat("gray: ", FLAGS_gray, "\nresize_height: ", FLAGS_resize_height,
                "\nresize_width: ", FLAGS_resize_width, "\nshort_side: ", FLAGS_short_side,
                "\nencoded: ", FLAGS_encoded, "\nencode_type: ", FLAGS_encode_type,
                "\nquality: ", FLAGS_quality, "\n");
}

void CheckImageCount(size_t images) {
  if (images <= kMostImages) return;
  Fail(ErrorCode::kUnsupported,
       StrCat(images, " images are too many for keys of eight digits; split the list"));
}

std::vector<size_t> OrderOfFlags(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  if (!FLAGS_shuffle) return order;
  const RandomStream random(FLAGS_seed, HashName("convert_imageset"));
  const std::vector<uint32_t> permuted = Permutation(static_cast<uint32_t>(count), random);
  return {permuted.begin(), permuted.end()};
}

}  // namespace crema::tools
