// VideoData: the frames of a video or a camera, in order. Outputs: frames (batch x C x H x W) and,
// with a second top, zeros (batch). A video is a video file or a sequence of image files. No input,
// no gradient.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/image_batches.h"
#include "data/batches/video_batches.h"
#include "format/file.h"
#include "graph/registry.h"
#include "layers/input/first_sample.h"
#include "layers/input/image_form.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

constexpr char kFile[] = "video_data_param.video_file";
constexpr char kDevice[] = "video_data_param.device_id";

bool IsCamera(const LayerParameter& param) {
  return param.video_data_param().video_type() == VideoDataParameter::WEBCAM;
}

bool IsImageSequence(const LayerParameter& param) {
  return !IsCamera(param) && param.video_data_param().video_file().find('%') != std::string::npos;
}

std::shared_ptr<const ImageList> ImagesOf(const LayerParameter& param) {
  const VideoDataParameter& video = param.video_data_param();
  return std::make_shared<const ImageList>(
      ImageList::OfFrames(video.video_file(), video.skip_frames()));
}

VideoOrigin OriginOf(const LayerParameter& param) {
  const VideoDataParameter& video = param.video_data_param();
  if (IsCamera(param)) return {.file = "", .camera = video.device_id()};
  return {.file = video.video_file()};
}

ColorMode ModeOf(const LayerParameter& param) {
  return param.transform_param().force_gray() ? ColorMode::kGray : ColorMode::kColor;
}

uint64_t EpochSize(const LayerParameter& param) {
  if (IsImageSequence(param)) return ImagesOf(param)->entries().size();
  return SamplesInOnePass(OriginOf(param), param.video_data_param().skip_frames());
}

void ReadFrom(const LayerParameter& param, const Shard& shard, const BatchFiller& filler,
              BatchReader* reader) {
  if (IsImageSequence(param)) {
    const auto images = ImagesOf(param);
    reader->source =
        std::make_unique<ImageFileSource>(images, ImageFileSource::Options{.shard = shard});
    reader->make_decoder = [images, mode = ModeOf(param), filler] {
      return std::make_unique<ImageFileDecoder>(images, ImageShaping{.mode = mode}, filler);
    };
    return;
  }
  const VideoOrigin origin = OriginOf(param);
  reader->source =
      std::make_unique<VideoSource>(origin, param.video_data_param().skip_frames(), shard);
  reader->make_decoder = [origin, mode = ModeOf(param), filler] {
    return std::make_unique<VideoDecoder>(origin, mode, filler);
  };
}

class VideoData final : public PrefetchedLayer, public ByteSource {
 public:
  explicit VideoData(const LayerParameter& param) : VideoData(param, WrittenForm(param)) {
    CheckBatchSize(*this, "data_param.batch_size", param.data_param().batch_size());
    CheckPipeline(*this, PipelineFieldsOf(param.data_param()));
    CheckByteOutput(*this);
    ValidateTransform(param.transform_param(), param.name());
    CheckSource();
  }
  // For parameters that the other constructor has checked.
  VideoData(const LayerParameter& param, const ImageForm& form)
      : PrefetchedLayer(param), form_(form) {}

  // Frames always hold bytes; Infer reports whether they can be read.
  std::string WhyNoBytes(Phase phase) const override {
    std::string why = WhyNotUploaded(param(), phase);
    if (why.empty()) Transformer(param().transform_param(), phase, param().name());
    return why;
  }

  ByteParts Part() const override {
    ByteParts parts = PartsAfterSource(param());
    parts.source = std::make_unique<const VideoData>(param(), UploadedForm(param()));
    return parts;
  }

  LayerInfo Infer(const InferContext& context) const override {
    shard_.Note(context);
    const int64_t batch = param().data_param().batch_size();
    LayerInfo info = form_.InfoOf(context, batch, FirstSample(context.phase), Shape{batch});
    info.external_output.assign(context.output_count, true);
    return info;
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    return std::make_unique<PrefetchedState>(PrefetchedState::Options{
        .layer = param().name(),
        .open =
            [param = param(), form = form_, phase, seed = context.seed(),
             shard = shard_.Get()](std::span<const BlobSpec> outputs) {
              return Open(param, form, phase, seed, shard, outputs);
            },
        .epoch_size = [param = param(),
                       shard = shard_.Get()] { return EpochOf(shard, EpochSize(param)); }});
  }

 private:
  void CheckSource() const {
    const VideoDataParameter& video = param().video_data_param();
    if (IsCamera(param())) {
      constexpr int kMost = 99;  // OpenCV takes the hundreds as the number of a backend
      if (video.device_id() >= 0 && video.device_id() <= kMost) return;
      FailField(*this, kDevice,
                StrCat(kDevice, " is ", video.device_id(), ", but must be 0 to ", kMost));
    }
    if (video.video_file().empty()) {
      FailField(*this, kFile,
                StrCat(kFile,
                       " is missing: give a video, or a sequence of images, such as "
                       "'frames/%06d.png'"));
    }
    if (IsImageSequence(param())) return;
    WithFieldContext(*this, kFile, [&] { ReadFileStart(video.video_file(), 1); });
  }

  static BatchReader Open(const LayerParameter& param, const ImageForm& form, Phase phase,
                          uint64_t seed, const Shard& shard, std::span<const BlobSpec> outputs) {
    auto transformer =
        std::make_shared<const Transformer>(param.transform_param(), phase, param.name());
    const BatchFiller filler(
        form.BatchFillerOptions(outputs, param.transform_param(), seed, param.name()),
        std::move(transformer));
    BatchReader reader{.options = MakePipeline(param, PipelineFieldsOf(param.data_param())).options,
                       .source = nullptr,
                       .make_decoder = nullptr};
    ReadFrom(param, shard, filler, &reader);
    return reader;
  }

  Shape FirstSample(Phase phase) const {
    return WithFieldContext(*this, IsCamera(param()) ? kDevice : kFile, [&] {
      const Transformer transformer(param().transform_param(), phase, param().name());
      if (!IsImageSequence(param())) return FirstOfVideo(transformer);
      const auto images = ImagesOf(param());
      const auto count = [&] { return images->entries().size(); };
      return LookForFirst(param().pipeline_param(), count, [&](uint64_t sample) {
        const Shape shape = ShapeOfEntry(images, {.mode = ModeOf(param())}, sample);
        return TransformedShape(transformer, shape, images->Name(images->entries()[sample]));
      });
    });
  }

  Shape FirstOfVideo(const Transformer& transformer) const {
    const VideoOrigin origin = OriginOf(param());
    const auto look = [&](uint64_t sample) {
      const uint32_t skip = param().video_data_param().skip_frames();
      const Shape shape = ShapeOfSample(origin, skip, ModeOf(param()), sample);
      return TransformedShape(transformer, shape, origin.Name());
    };
    if (origin.is_camera()) return look(0);
    // If the number of frames is unknown, only the first is tried.
    const auto count = [&] { return std::max<uint64_t>(1, EpochSize(param())); };
    return LookForFirst(param().pipeline_param(), count, look);
  }

  Shape TransformedShape(const Transformer& transformer, const Shape& frame,
                         const std::string& name) const {
    if (const auto misfit = transformer.FindMisfit(frame)) FailMisfit(*this, *misfit, name);
    return transformer.OutputShape(frame);
  }

  const ImageForm form_;
  PlannedShard shard_;
};

std::vector<BadSample> BadSamples() {
  const std::string data = "data_param { batch_size: 2 } ";
  const auto video = [&](const std::string& file) {
    return data + "video_data_param { video_type: VIDEO video_file: '" + file + "' }";
  };
  return {
      {video("f/%d.png").substr(data.size()), {}, "batch_size must be 1 or more"},
      {data + "video_data_param { device_id: -1 }", {}, "device_id is -1, but must be 0 to 99"},
      {video(""), {}, "video_file is missing"},
      {video("no/such/video.avi"), {}, "no/such/video.avi"},
      {video("no/such/%d.png"), {}, "there are no frames 'no/such/0.png' or 'no/such/1.png'"},
      {video("%s.png"), {}, "must have one %d"},
      {video("%06d%d.png"), {}, "must have one %d"},
  };
}

}  // namespace

void RegisterVideoData(Registry& registry) {
  LayerType type;
  type.name = "VideoData";
  type.category = "input";
  type.origin = "SSD";
  type.summary =
      "Frames of a video file, of a sequence of image files (video_file: 'frames/%06d.png'), or of "
      "a camera. Needs a build with OpenCV; video files and cameras also need its videoio, with "
      "the formats of its backends (FFmpeg, GStreamer, Motion JPEG). Frames are read ahead; "
      "data_param { prefetch: 1 } keeps the delay of a camera small. A resumed run reads the video "
      "up to its position, which takes time in a long video.";
  type.formula = "output = (pixel - mean) * scale, cropped and mirrored as transform_param says";
  type.output_docs = {
      StrCat("frames: batch x C x H x W, blue, green and red, or grey with force_gray", kBytesDoc),
      "zeros (optional): batch"};
  type.differences = {
      "video_file may be a sequence of images; it must be a file, not the address of a stream.",
      "An AVI or MP4 file is an error if a tenth or more of its frames cannot be read; the fork "
      "takes it for a shorter video.",
      "After the last frame it continues with the first; the fork interrupts the process.",
      "skip_frames frames are left out between two; the fork fails when it skips the first of a "
      "batch. Each frame is transformed once, not twice."};
  type.param_fields = {"data_param", "video_data_param", "transform_param", "pipeline_param"};
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
                        "data_param.force_encoded_color",
                        "pipeline_param.shuffle",
                        "pipeline_param.shuffle_buffer",
                        "pipeline_param.cache",
                        "pipeline_param.cache_mb"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.example =
      "top: \"data\"\n"
      "video_data_param { video_type: VIDEO video_file: \"frames/%06d.png\" }\n"
      "data_param { batch_size: 1 }\n"
      "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const VideoData>(p); };
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
