#include "data/image/codecs_opencv.h"

#include "core/module.h"

namespace crema {

const ImageCodecs& LoadedImageCodecs() {
  static const ImageCodecs* const codecs =
      reinterpret_cast<GetImageCodecs>(SymbolOfModule("libcrema_images.so", kGetImageCodecs))();
  return *codecs;
}

std::unique_ptr<VideoCodec> MakeVideoCodec() {
  static const auto make =
      reinterpret_cast<NewVideoCodec>(SymbolOfModule("libcrema_video.so", kNewVideoCodec));
  return std::unique_ptr<VideoCodec>(make());
}

std::unique_ptr<VideoEncoder> MakeVideoEncoder() {
  static const auto make =
      reinterpret_cast<NewVideoEncoder>(SymbolOfModule("libcrema_video.so", kNewVideoEncoder));
  return std::unique_ptr<VideoEncoder>(make());
}

}  // namespace crema
