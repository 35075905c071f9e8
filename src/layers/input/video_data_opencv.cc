// VideoData: the frames of a film, one after the other. Outputs: frames (batch x C x H x W) and,
// where a second top is given, zeros (batch). The film is a sequence of image files: OpenCV's
// reader of video files and cameras (videoio) is not part of this build. No input, no gradient.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/image_batches.h"
#include "format/file.h"
#include "graph/registry.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

std::shared_ptr<const ImageList> OpenFrames(const LayerParameter& param) {
  const VideoDataParameter& video = param.video_data_param();
  return std::make_shared<const ImageList>(
      ImageList::OfFrames(video.video_file(), video.skip_frames()));
}

ImageShaping Shaping(const LayerParameter& param) {
  return {.mode = param.transform_param().force_gray() ? ColorMode::kGray : ColorMode::kColor};
}

class VideoData final : public Layer {
 public:
  explicit VideoData(const LayerParameter& param) : Layer(param) {
    CheckBatchSize(*this, "data_param.batch_size", param.data_param().batch_size());
    CheckPrefetch(*this, "data_param.prefetch", param.data_param().prefetch());
    CheckThreads(*this, "data_param.threads", param.data_param().threads());
    ValidateTransform(param.transform_param(), param.name());
    CheckSource();
  }

  LayerInfo Infer(const InferContext& context) const override {
    const int64_t batch = param().data_param().batch_size();
    const Shape sample = FirstSample(context.phase);
    LayerInfo info;
    info.outputs.push_back({Shape{batch, sample[0], sample[1], sample[2]}, context.dtype});
    if (context.output_count > 1) info.outputs.push_back({Shape{batch}, context.dtype});
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<PrefetchedState*>(args.state)->Next(args.outputs);
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    return std::make_unique<PrefetchedState>(PrefetchedState::Options{
        .layer = param().name(),
        .open =
            [param = param(), phase, seed = context.seed()](std::span<const BlobSpec> outputs) {
              return Open(param, phase, seed, outputs);
            },
        .epoch_size = [param = param()] { return OpenFrames(param)->entries().size(); }});
  }

 private:
  void CheckSource() const {
    const VideoDataParameter& video = param().video_data_param();
    Where where{.layer = param().name()};
    if (video.video_type() == VideoDataParameter::WEBCAM) {
      where.field = "video_data_param.video_type";
      Fail(ErrorCode::kUnsupported,
           StrCat("camera ", video.device_id(),
                  " cannot be read: this build does without OpenCV's "
                  "videoio. Give video_type: VIDEO and a sequence of images as video_file"),
           std::move(where));
    }
    if (video.video_file().empty()) {
      FailField(*this, "video_data_param.video_file",
                "video_data_param.video_file is missing: give a sequence of images, such as "
                "'frames/%06d.png'");
    }
    if (video.video_file().find('%') != std::string::npos) return;
    Naming(*this, "video_data_param.video_file", [&] { ReadFileStart(video.video_file(), 1); });
    where.field = "video_data_param.video_file";
    Fail(ErrorCode::kUnsupported,
         StrCat("'", video.video_file(),
                "' cannot be read: this build does without OpenCV's "
                "videoio. Write its frames to image files, and give them as "
                "video_file: 'frames/%06d.png'"),
         std::move(where));
  }

  static BatchReader Open(const LayerParameter& param, Phase phase, uint64_t seed,
                          std::span<const BlobSpec> outputs) {
    const auto frames = OpenFrames(param);
    auto transformer =
        std::make_shared<const Transformer>(param.transform_param(), phase, param.name());
    const SampleWriter writer(
        WriterOptions(outputs[0], param.transform_param(), seed, param.name()),
        std::move(transformer));
    return {.options = {.outputs = {},
                        .depth = param.data_param().prefetch(),
                        .decode_threads = static_cast<int>(param.data_param().threads())},
            .source = std::make_unique<ImageFileSource>(frames, ImageFileSource::Options{}),
            .make_decoder = [frames, shaping = Shaping(param), writer] {
              return std::make_unique<ImageFileDecoder>(frames, shaping, writer);
            }};
  }

  Shape FirstSample(Phase phase) const {
    return Naming(*this, "video_data_param.video_file", [&] {
      const auto frames = OpenFrames(param());
      const Shape shape = ShapeOfFirst(frames, Shaping(param()));
      const Transformer transformer(param().transform_param(), phase, param().name());
      if (const auto misfit = transformer.FindMisfit(shape)) {
        FailField(*this, misfit->field, misfit->message);
      }
      return transformer.OutputShape(shape);
    });
  }
};

std::vector<BadSample> BadSamples() {
  const std::string data = "data_param { batch_size: 2 } ";
  const auto film = [&](const std::string& file) {
    return data + "video_data_param { video_type: VIDEO video_file: '" + file + "' }";
  };
  return {
      {.prototxt = film("f/%d.png").substr(data.size()),
       .input_shapes = {},
       .expect = "batch_size must be 1 or more"},
      {.prototxt = data, .input_shapes = {}, .expect = "camera 0 cannot be read"},
      {.prototxt = film(""), .input_shapes = {}, .expect = "video_file is missing"},
      {.prototxt = film("no/such/film.avi"), .input_shapes = {}, .expect = "no/such/film.avi"},
      {.prototxt = film("no/such/%d.png"),
       .input_shapes = {},
       .expect = "there are no frames 'no/such/0.png' or 'no/such/1.png'"},
      {.prototxt = film("%s.png"), .input_shapes = {}, .expect = "must have one %d"},
      {.prototxt = film("%06d%d.png"), .input_shapes = {}, .expect = "must have one %d"},
  };
}

}  // namespace

void RegisterVideoData(Registry& registry) {
  LayerType type;
  type.name = "VideoData";
  type.category = "input";
  type.origin = "SSD";
  type.summary =
      "Frames of a film, given as a sequence of image files (video_file: 'frames/%06d.png'). Needs "
      "a "
      "build with OpenCV. Video files and cameras are refused: they need OpenCV's videoio, which "
      "no "
      "build links.";
  type.formula = "output = (pixel - mean) * scale, cropped and mirrored as transform_param says";
  type.output_docs = {"frames: batch x C x H x W, blue, green and red, or grey with force_gray",
                      "zeros, where there is a second top: batch"};
  type.differences = {
      "video_file is a sequence of images; films and cameras are not read.",
      "Behind the last frame comes the first; the fork interrupts the process.",
      "skip_frames frames are left out between two; the fork fails when it skips the first of a "
      "batch. Each frame is transformed once, not twice."};
  type.param_fields = {"data_param", "video_data_param", "transform_param"};
  type.unread_fields = {"data_param.source",
                        "data_param.backend",
                        "data_param.scale",
                        "data_param.mean_file",
                        "data_param.crop_size",
                        "data_param.mirror",
                        "data_param.rand_skip",
                        "data_param.cache",
                        "data_param.precache",
                        "data_param.shuffle",
                        "data_param.side",
                        "data_param.parser_threads",
                        "data_param.force_encoded_color"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const VideoData>(p); };
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
