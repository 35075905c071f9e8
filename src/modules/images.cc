// libcrema_images.so.
#include <dlfcn.h>

#include <opencv2/imgcodecs.hpp>

#include "data/image/codecs_opencv.h"

namespace crema {
namespace {

class OpenCvImages final : public ImageCodecs {
 public:
  cv::Mat Decode(const cv::Mat& bytes, int flags) const override {
    return cv::imdecode(bytes, flags);
  }
  bool Encode(const std::string& extension, const cv::Mat& image, std::vector<uint8_t>* file,
              const std::vector<int>& options) const override {
    return cv::imencode(extension, image, *file, options);
  }
};

}  // namespace
}  // namespace crema

extern "C" const crema::ImageCodecs* CremaImageCodecs1() {
  static const crema::OpenCvImages codecs;
  return &codecs;
}

// OpenCV registers the 200 drivers of GDAL before it decodes its first image, and GDAL ends the
// process if an allocation fails meanwhile. These take the place of GDAL's functions for OpenCV,
// and register the drivers only for a file that OpenCV leaves to them (maps in NITF or DTED).
extern "C" void GDALAllRegister() {}

extern "C" void* GDALOpen(const char* path, int access) {
  const auto registers = reinterpret_cast<void (*)()>(::dlsym(RTLD_NEXT, "GDALAllRegister"));
  const auto opens = reinterpret_cast<void* (*)(const char*, int)>(::dlsym(RTLD_NEXT, "GDALOpen"));
  if (registers == nullptr || opens == nullptr) return nullptr;
  registers();  // does nothing the second time
  return opens(path, access);
}
