// libcrema_images.so.
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
