// Images that are uploaded to a GPU as bytes: the blobs are those of the CPU, byte for byte.
// Without a GPU, on a stand-in.
#include "gpu/uploaded_bytes.h"

#include <cmath>

#include "crema.pb.h"
#include "data/image/image.h"
#include "plan/plan_passes.h"

namespace crema::test {
namespace {

using What = QueueTrace::What;

// Three epochs and the start of a fourth.
void ExpectSameBatches(const std::string& text, Phase phase, QueueTrace* trace = nullptr) {
  const auto cpu = Open(text, phase, OnCpu());
  const auto gpu = Open(text, phase, OnGpu(), trace);
  ASSERT_TRUE(Uploads(gpu->plan())) << text << WhyNot(gpu->plan());
  ASSERT_FALSE(Uploads(cpu->plan()));
  ASSERT_EQ(SpecOf(gpu->plan(), gpu->plan().layers[0].outputs[0]).dtype, DType::kU8);
  for (int batch = 0; batch < 8; ++batch) {
    cpu->Forward();
    gpu->Forward();
    for (const std::string blob : {"data", "label"}) {
      if (cpu->plan().FindValue(blob) < 0) continue;
      ASSERT_EQ(cpu->Data(blob).shape(), gpu->Data(blob).shape());
      ASSERT_EQ(BytesOf(*cpu, blob), BytesOf(*gpu, blob)) << text << " batch " << batch;
    }
  }
}

TEST_F(UploadedBytes, BatchesAreThoseOfTheCpu) {
  for (const int channels : {1, 3, 5}) {
    const std::string set = WriteDrawn(channels);
    const std::string mean = StrCat("mean_file: '", WriteMean(channels), "' ");
    std::vector<std::string> transforms = {"",
                                           "mirror: true",
                                           "scale: 0.00390625",
                                           "mean_value: 33.3 scale: 0.017",
                                           "crop_size: 5 mirror: true mean_value: 33.3",
                                           "crop_h: 4 crop_w: 7 scale: 0.3",
                                           mean,
                                           mean + "mirror: true",
                                           mean + "crop_size: 4 scale: 0.017",
                                           mean + "crop_h: 9 crop_w: 6 mirror: true scale: 0.4",
                                           mean + "crop_size: 5 mirror: true random_seed: 8"};
    if (channels == 3) {
      transforms.push_back(
          "crop_size: 7 mirror: true mean_value: 104 mean_value: 117.3 mean_value: 123 scale: 2");
    }
    for (const std::string& transform : transforms) {
      for (const Phase phase : {TRAIN, TEST}) {
        ASSERT_NO_FATAL_FAILURE(ExpectSameBatches(DataNet(set, transform), phase));
      }
    }
    ASSERT_NO_FATAL_FAILURE(
        ExpectSameBatches(DataNet(set, mean + "crop_size: 4 mirror: true", "", ""), TRAIN));
    ASSERT_NO_FATAL_FAILURE(ExpectSameBatches(DataNet(set, "crop_size: 4", "", ""), TEST));
  }
}

TEST_F(UploadedBytes, ShuffledCachedAndAugmentedToo) {
  const std::string set = WriteDrawn(3);
  const std::string crop = "crop_size: 6 mirror: true mean_value: 90 ";
  for (const std::string pipeline : {"shuffle: true threads: 3", "cache: DECODED"}) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectSameBatches(DataNet(set, crop, "pipeline_param { " + pipeline + " }"), TRAIN));
  }
  // Erased pixels become the mean.
  for (const std::string augment : {"erase { probability: 0.7 }", "brightness: 0.5 hue: 0.1"}) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectSameBatches(DataNet(set, crop + "augment_param { " + augment + " }"), TRAIN));
  }
}

TEST_F(UploadedBytes, LateTransfersAndGraphsGiveTheSame) {
  const std::string mean = StrCat("mean_file: '", WriteMean(3), "' crop_size: 4 mirror: true");
  QueueTrace trace{.late_transfers = true};
  ASSERT_NO_FATAL_FAILURE(ExpectSameBatches(DataNet(WriteDrawn(3), mean), TRAIN, &trace));
  EXPECT_GT(trace.replays, 3);
}

TEST_F(UploadedBytes, AQuarterGoesUpAndNothingWaits) {
  const std::string text =
      DataNet(WriteDrawn(3), StrCat("mean_file: '", WriteMean(3), "' crop_size: 8 mirror: true"));
  const auto sent = [&](PlanOptions options) {
    QueueTrace trace;
    const auto session = Open(text, TRAIN, options, &trace);
    for (int i = 0; i < 3; ++i) session->Forward();
    trace.entries.reserve(100);
    trace.waits = 0;
    session->QueueForward();
    EXPECT_EQ(trace.waits, 0);
    size_t bytes = 0;
    for (const QueueTrace::Entry& entry : trace.entries) {
      if (entry.what != What::kUpload) continue;
      EXPECT_EQ(entry.stream, DeviceStream::kTransfer);
      bytes += entry.bytes;
    }
    return bytes;
  };
  constexpr size_t kPixels = 3 * 8 * 8, kLabel = 4, kPlace = 12;
  EXPECT_EQ(sent(OnGpu()), kBatch * (kPixels + kLabel + kPlace));
  PlanOptions numbers = OnGpu();
  numbers.passes = ParsePasses("-upload_bytes");
  EXPECT_EQ(sent(numbers), kBatch * (4 * kPixels + kLabel));
}

TEST_F(UploadedBytes, GoesOnWhereItStood) {
  const std::string text = DataNet(WriteDrawn(3), "crop_size: 5 mirror: true mean_value: 7",
                                   "pipeline_param { shuffle: true }");
  const auto cpu = Open(text, TRAIN, OnCpu());
  const auto gpu = Open(text, TRAIN, OnGpu());
  for (int i = 0; i < 4; ++i) {
    cpu->Forward();
    gpu->Forward();
  }
  SolverState of_cpu, of_gpu;
  cpu->SaveState("net", &of_cpu);
  gpu->SaveState("net", &of_gpu);
  EXPECT_EQ(of_cpu.SerializeAsString(), of_gpu.SerializeAsString());
  const auto again = Open(text, TRAIN, OnGpu());
  again->RestoreState("net", of_cpu);
  for (int i = 0; i < 4; ++i) {
    cpu->Forward();
    again->Forward();
    EXPECT_EQ(BytesOf(*cpu, "data"), BytesOf(*again, "data")) << i;
    EXPECT_EQ(BytesOf(*cpu, "label"), BytesOf(*again, "label")) << i;
  }
}

// Compares the gradient of the first parameter after a pass over `text`.
void ExpectSameGradient(const std::string& text) {
  std::vector<std::vector<float>> gradients;
  for (const PlanOptions& options : {OnCpu(), OnGpu()}) {
    const auto session = Open(text, TRAIN, options);
    session->Forward();
    session->ZeroParameterGradients();
    session->Backward();
    const TensorView gradient = session->ParameterGradient(0);
    gradients.emplace_back(static_cast<size_t>(gradient.count()));
    session->Read(gradient, gradients.back().data());
  }
  float largest = 0;
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    largest = std::max(largest, std::abs(gradients[0][i]));
    ASSERT_NEAR(gradients[0][i], gradients[1][i], 1e-5F) << i;  // sums in another order
  }
  EXPECT_GT(largest, 0.01F);
}

TEST_F(UploadedBytes, GradientsAreThoseOfTheCpu) {
  const std::string data = DataNet(WriteDrawn(3), "crop_size: 5 mirror: true scale: 0.01");
  const auto product = [](const std::string& bottom) {
    return StrCat("layer { name: 'ip' type: 'InnerProduct' bottom: '", bottom,
                  "' top: 'ip' inner_product_param { num_output: 75 weight_filler { type: "
                  "'xavier' } } } ");
  };
  // The gradient of the images too, though bytes have none.
  ExpectSameGradient("force_backward: true " + data + product("data") +
                     "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
                     "top: 'loss' }");
  // Images are data, which get no gradient in any case.
  ExpectSameGradient(
      data +
      "layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 3 dim: 4 } "
      "data_filler { value: 1 } } } " +
      product("x") +
      "layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'ip' bottom: 'data' "
      "top: 'loss' propagate_down: true propagate_down: true }");
}

#ifdef CREMA_HAVE_OPENCV
std::string File(int height, int width, int number, const std::string& type) {
  Image image{.channels = 3, .height = height, .width = width, .pixels = {}};
  for (int i = 0; i < 3 * height * width; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(40 * number + i / width % 97 + 3 * (i % width)));
  }
  return EncodeImage(image, type, 0);
}

TEST_F(UploadedBytes, ImageFilesToo) {
  for (const std::string type : {"jpg", "png"}) {
    std::string lines;
    for (int n = 0; n < kRecords; ++n) {
      // Images of several sizes.
      const std::string file = File(40 + n, 52 - n, n, type);
      lines += temp_.Write(StrCat(n, ".", type), file) + StrCat(" ", n, "\n");
    }
    const std::string list = temp_.Write("list" + type, lines);
    for (const Phase phase : {TRAIN, TEST}) {
      for (const std::string more : {"", "new_height: 33 new_width: 35", "is_color: false"}) {
        ASSERT_NO_FATAL_FAILURE(ExpectSameBatches(
            StrCat("layer { name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param "
                   "{ source: '",
                   list, "' batch_size: 3 shuffle: true ", more,
                   " } transform_param { crop_size: 31 mirror: true mean_value: 99.5 scale: 0.1 } "
                   "}"),
            phase));
      }
    }
  }
}

TEST_F(UploadedBytes, FramesToo) {
  for (int n = 1; n < 8; ++n) {
    temp_.Write(StrCat("f_00", n, ".png"), File(12, 15, n, "png"));
  }
  ExpectSameBatches(
      StrCat("layer { name: 'd' type: 'VideoData' top: 'data' top: 'label' data_param { "
             "batch_size: 2 } video_data_param { video_type: VIDEO video_file: '",
             temp_.File("f_%03d.png"),
             "' } transform_param { crop_size: 11 mirror: true mean_value: 9 } }"),
      TRAIN);
}

// Boxes are mirrored with their images, which the GPU mirrors later.
TEST_F(UploadedBytes, ImagesWithBoxesToo) {
  LmdbWriter writer(temp_.File("boxes"));
  for (int n = 0; n < kRecords; ++n) {
    AnnotatedDatum record;
    *record.mutable_datum() = Drawn(3, n);
    record.set_type(AnnotatedDatum::BBOX);
    for (int k = 0; k < n % 4; ++k) {
      AnnotationGroup* group = record.add_annotation_group();
      group->set_group_label(k + 1);
      NormalizedBBox* box = group->add_annotation()->mutable_bbox();
      box->set_xmin(0.1F * static_cast<float>(k));
      box->set_ymin(0.2F);
      box->set_xmax(0.3F + 0.1F * static_cast<float>(n));
      box->set_ymax(0.875F);
    }
    writer.Put(StrCat("key", n), record.SerializeAsString());
  }
  writer.Close();
  const std::string resized = "resize_param { prob: 1 height: 12 width: 14 } ";
  for (const std::string& steps :
       {std::string("mean_value: 104 mean_value: 117 mean_value: 123"), resized + "scale: 0.017",
        resized + "mean_value: 99 expand_param { prob: 0.5 max_expand_ratio: 2 } "
                  "distort_param { brightness_prob: 0.5 brightness_delta: 32 }"}) {
    for (const std::string tops : {"top: 'data' top: 'label'", "top: 'data'"}) {
      ASSERT_NO_FATAL_FAILURE(ExpectSameBatches(
          StrCat("layer { name: 'd' type: 'AnnotatedData' ", tops, " data_param { source: '",
                 temp_.File("boxes"), "' batch_size: 3 } transform_param { mirror: true ", steps,
                 " } }"),
          TRAIN));
    }
  }
}
#endif

}  // namespace
}  // namespace crema::test
