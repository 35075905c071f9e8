// Rates of the data path, as ratios of two things that take turns in one process: machines are
// noisy. Usage: data_rates PHOTOS WORK_DIR        rows of bench/results/data.md
//               data_rates PHOTOS WORK_DIR images WORKERS SECONDS     images/s, for data.sh
// PHOTOS is a folder of JPEG files, 224 x 224 or larger.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

// After size_t and FILE.
#include <jpeglib.h>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/batch_filler.h"
#include "data/batches/image_batches.h"
#include "data/image/image_jpeg.h"
#include "data/pipeline/prefetcher.h"
#include "data/records/datum.h"
#include "data/records/record_db.h"

namespace {

using namespace crema;  // NOLINT: a program, not a library

constexpr int kRounds = 15;
constexpr int kCrop = 224;

double Now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Work {
  std::string name;
  std::function<void()> run;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One row: how many times as fast `ours` is as `theirs`. `amount` of `unit` is what each does.
void Compare(const std::string& title, const Work& ours, const Work& theirs, double amount,
             const std::string& unit, clockid_t clock) {
  std::vector<double> seconds[2];
  std::vector<double> ratios;
  for (int round = -1; round < kRounds; ++round) {
    double took[2];
    for (int turn = 0; turn < 2; ++turn) {
      const int who = (turn + round + 2) % 2;
      const double begin = Now(clock);
      (who == 0 ? ours : theirs).run();
      took[who] = Now(clock) - begin;
    }
    if (round < 0) continue;  // caches
    for (int who = 0; who < 2; ++who) seconds[who].push_back(took[who]);
    ratios.push_back(took[1] / took[0]);
  }
  std::ranges::sort(ratios);
  std::printf("| %s | %s | %.4g %s | %s | %.4g %s | %.2f | %.2f to %.2f |\n", title.c_str(),
              ours.name.c_str(), amount / Median(seconds[0]), unit.c_str(), theirs.name.c_str(),
              amount / Median(seconds[1]), unit.c_str(), ratios[ratios.size() / 2],
              ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4]);
  std::fflush(stdout);
}

// (a) Records of 110 KB, read and copied, against copying alone.
void CompareReading(const std::string& work) {
  constexpr size_t kRecords = 2000;
  constexpr size_t kBytes = 110000;
  const std::string path = work + "/records";
  std::vector<char> all(kRecords * kBytes);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(MixBits(i, 1));
  const auto writer = CreateRecords(path, DataParameter::LMDB);
  char key[16];
  for (size_t i = 0; i < kRecords; ++i) {
    std::snprintf(key, sizeof key, "%08zu", i);
    writer->Put(key, {all.data() + i * kBytes, kBytes});
  }
  writer->Close();
  const auto reader = OpenRecords(path);
  std::vector<char> copy(kBytes);
  const Work ours{"LMDB, read and copied", [&] {
                    for (size_t i = 0; i < kRecords; ++i) {
                      const KeyedRecord record = reader->Next();
                      std::memcpy(copy.data(), record.value.data(), record.value.size());
                    }
                  }};
  const Work theirs{"memcpy", [&] {
                      for (size_t i = 0; i < kRecords; ++i) {
                        std::memcpy(copy.data(), all.data() + i * kBytes, kBytes);
                      }
                    }};
  Compare("(a) 2,000 records of 110 KB", ours, theirs, kRecords * kBytes / 1e9, "GB/s",
          CLOCK_THREAD_CPUTIME_ID);
}

std::vector<std::string> ReadAll(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return files;
}

// libjpeg-turbo's own way: all of the image, rows of blue, green, red.
void DecodeFully(const std::string& file, std::vector<uint8_t>* pixels) {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_EXT_BGR;
  jpeg_start_decompress(&info);
  const size_t row_bytes = size_t{info.output_width} * 3;
  pixels->resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels->data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

BatchFiller MakeFiller(DType dtype = DType::kF32) {
  TransformationParameter param;
  param.set_crop_size(kCrop);
  param.set_mirror(true);
  for (const float mean : {104.F, 117.F, 123.F}) param.add_mean_value(mean);  // not of bytes
  return BatchFiller({.sample = {3, kCrop, kCrop}, .dtype = dtype},
                     std::make_shared<const Transformer>(param, TRAIN, "data"));
}

// Those of the size that the aim is about, or all where there is none.
std::vector<std::string> OfSize(const std::vector<std::string>& files, int height, int width) {
  std::vector<std::string> chosen;
  std::ranges::copy_if(files, std::back_inserter(chosen), [&](const std::string& file) {
    return JpegFile(file, ColorMode::kColor, "photo").shape() == Shape{3, height, width};
  });
  return chosen.empty() ? files : chosen;
}

// (b) Random crops of photographs.
void CompareJpeg(const std::vector<std::string>& files) {
  const RandomStream random(1, 1);
  uint64_t draw = 0;
  PackedImage part;
  std::vector<uint8_t> pixels;
  const Work cropped{"224 x 224 decoded", [&] {
                       for (const std::string& file : files) {
                         JpegFile jpeg(file, ColorMode::kColor, "photo");
                         const Shape shape = jpeg.shape();
                         const auto below = [&](int64_t n) {
                           return static_cast<int>(random.Below(draw++, static_cast<uint32_t>(n)));
                         };
                         const int top = below(shape[1] - kCrop + 1);
                         jpeg.Decode({top, below(shape[2] - kCrop + 1), kCrop, kCrop}, &part);
                       }
                     }};
  const Work fully{"libjpeg-turbo, whole images", [&] {
                     for (const std::string& file : files) DecodeFully(file, &pixels);
                   }};
  const auto count = static_cast<double>(files.size());
  const std::string title = StrCat("(b) ", files.size(), " photographs of 500 x 375");
  Compare(title, cropped, fully, count, "images/s", CLOCK_THREAD_CPUTIME_ID);
  BatchFiller filler = MakeFiller();
  std::vector<float> sample(3 * kCrop * kCrop);
  const Work samples{"to samples: cropped, mirrored, mean, float", [&] {
                       for (const std::string& file : files) {
                         filler.WriteEncoded(
                             file, ColorMode::kColor, draw++, [] { return std::string("photo"); },
                             reinterpret_cast<std::byte*>(sample.data()));
                       }
                     }};
  Compare(title, samples, fully, count, "images/s", CLOCK_THREAD_CPUTIME_ID);
}

// (c) Raw records to samples, compared with copying as many floats.
void CompareRaw(const std::string& work) {
  constexpr size_t kRecords = 500;
  constexpr int kSide = 256;
  const std::string path = work + "/raw";
  const auto writer = CreateRecords(path, DataParameter::LMDB);
  Datum datum;
  datum.set_channels(3);
  datum.set_height(kSide);
  datum.set_width(kSide);
  datum.mutable_data()->resize(size_t{3} * kSide * kSide, 'x');
  char key[16];
  for (size_t i = 0; i < kRecords; ++i) {
    std::snprintf(key, sizeof key, "%08zu", i);
    writer->Put(key, datum.SerializeAsString());
  }
  writer->Close();
  const auto reader = OpenRecords(path);
  DatumReader parser(path);
  BatchFiller samples = MakeFiller();
  std::vector<float> batch(size_t{64} * 3 * kCrop * kCrop);
  const auto place = [&](size_t i) { return batch.data() + i % 64 * 3 * kCrop * kCrop; };
  const Work ours{"LMDB to samples: cropped, mirrored, mean, float", [&] {
                    for (size_t i = 0; i < kRecords; ++i) {
                      const KeyedRecord record = reader->Next();
                      samples.Write(
                          parser.Read(record.key, record.value), i,
                          [] { return std::string("record"); },
                          reinterpret_cast<std::byte*>(place(i)));
                    }
                  }};
  const std::vector<float> made(size_t{3} * kCrop * kCrop, 1.F);
  const Work theirs{"memcpy of the floats", [&] {
                      for (size_t i = 0; i < kRecords; ++i) {
                        std::memcpy(place(i), made.data(), made.size() * sizeof(float));
                      }
                    }};
  Compare("(c) raw 256 x 256 to 224 x 224", ours, theirs, kRecords, "images/s a core",
          CLOCK_THREAD_CPUTIME_ID);
}

// (d) The usual loop: imread, crop, mirror, to float, mean, planes.
void OpenCvSample(const std::string& path, const RandomStream& random, float* out) {
  const cv::Mat image = cv::imread(path, cv::IMREAD_COLOR);
  const auto below = [&](uint64_t index, int n) {
    return static_cast<int>(random.Below(index, static_cast<uint32_t>(n)));
  };
  cv::Mat crop =
      image({below(0, image.cols - kCrop + 1), below(1, image.rows - kCrop + 1), kCrop, kCrop});
  if (below(2, 2) == 1) {
    cv::Mat mirrored;
    cv::flip(crop, mirrored, 1);
    crop = mirrored;
  }
  cv::Mat floats;
  crop.convertTo(floats, CV_32FC3);
  floats -= cv::Scalar(104, 117, 123);
  std::vector<cv::Mat> planes;
  for (int c = 0; c < 3; ++c) {
    planes.emplace_back(kCrop, kCrop, CV_32F, out + c * kCrop * kCrop);
  }
  cv::split(floats, planes);
}

void CompareImread(const std::vector<std::string>& paths) {
  std::vector<float> sample(3 * kCrop * kCrop);
  BatchFiller filler = MakeFiller();
  uint64_t ordinal = 0;
  FileReader reader(nullptr);
  std::string storage;
  const Work ours{"files to samples", [&] {
                    for (const std::string& path : paths) {
                      filler.WriteEncoded(
                          reader.Read(0, path, &storage), ColorMode::kColor, ordinal++,
                          [&] { return path; }, reinterpret_cast<std::byte*>(sample.data()));
                    }
                  }};
  const Work theirs{"OpenCV: imread, crop, flip, convertTo, split", [&] {
                      for (const std::string& path : paths) {
                        OpenCvSample(path, RandomStream(1, 2, ordinal++), sample.data());
                      }
                    }};
  Compare("(d) photographs in files", ours, theirs, static_cast<double>(paths.size()), "images/s",
          CLOCK_THREAD_CPUTIME_ID);
}

// The pipeline with its threads, over the files of a list.
class Pipeline {
 public:
  Pipeline(const std::vector<std::string>& paths, const std::string& work, int workers,
           DType dtype = DType::kF32) {
    const std::string source = work + "/list.txt";
    std::ofstream list(source);
    for (const std::string& path : paths) list << path << " 0\n";
    list.close();
    const auto images = std::make_shared<const ImageList>(source, "");
    PrefetchOptions options;
    options.outputs = {{.shape = ShapeOf(dtype), .dtype = dtype}};
    options.decode_threads = workers;
    options.external = true;  // as sessions take batches
    prefetcher_ = std::make_unique<Prefetcher>(
        options, std::make_unique<ImageFileSource>(images, ImageFileSource::Options{}),
        [images, dtype] {
          return std::make_unique<ImageFileDecoder>(images, ImageShaping{}, MakeFiller(dtype));
        });
  }
  static constexpr int64_t kBatch = 32;
  void Pop(int batches) {
    std::byte* place[1];
    for (int i = 0; i < batches; ++i) prefetcher_->ExposeBuffers(place);
  }
  // Begins with nothing that was read ahead, and leaves no thread that works on while others have
  // their turn.
  void PopAlone(int batches) {
    Pop(batches);
    prefetcher_->Restore(0);
  }

 private:
  static Shape ShapeOf(DType dtype) {
    return dtype == DType::kU8 ? Shape{kBatch, kCrop, kCrop, 3} : Shape{kBatch, 3, kCrop, kCrop};
  }

  std::unique_ptr<Prefetcher> prefetcher_;
};

// (e) With one worker, reading and delivering have the second core to themselves; with two they
// share it. A batch of bytes is a quarter of the copying.
void CompareWorkers(const std::vector<std::string>& paths, const std::string& work) {
  constexpr int kBatches = 80;
  for (const auto& [title, dtype] :
       {std::pair("(e) photographs in files, the whole pipeline", DType::kF32),
        std::pair("(e) the same, bytes (output: U8)", DType::kU8)}) {
    Pipeline two(paths, work, 2, dtype);
    Pipeline one(paths, work, 1, dtype);
    Compare(title, {"two workers", [&] { two.PopAlone(kBatches); }},
            {"one", [&] { one.PopAlone(kBatches); }}, kBatches * Pipeline::kBatch, "images/s",
            CLOCK_MONOTONIC);
  }
}

// (g)
void CompareBytes(const std::vector<std::string>& paths, const std::string& work) {
  constexpr int kBatches = 20;
  Pipeline bytes(paths, work, 1, DType::kU8);
  Pipeline floats(paths, work, 1);
  Compare("(g) photographs in files, the whole pipeline with one worker",
          {"bytes (output: U8)", [&] { bytes.PopAlone(kBatches); }},
          {"numbers", [&] { floats.PopAlone(kBatches); }}, kBatches * Pipeline::kBatch, "images/s",
          CLOCK_MONOTONIC);
}

void PrintRate(const std::vector<std::string>& paths, const std::string& work, int workers,
               double seconds) {
  Pipeline pipeline(paths, work, workers);
  pipeline.Pop(10);
  const double begin = Now(CLOCK_MONOTONIC);
  int batches = 0;
  while (Now(CLOCK_MONOTONIC) < begin + seconds) {
    pipeline.Pop(1);
    ++batches;
  }
  std::printf("%.1f\n", batches * Pipeline::kBatch / (Now(CLOCK_MONOTONIC) - begin));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 6) {
    std::fprintf(stderr, "usage: data_rates PHOTOS WORK_DIR [images WORKERS SECONDS]\n");
    return 2;
  }
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  const std::string work = argv[2];
  if (argc == 6) {
    PrintRate(paths, work, std::atoi(argv[4]), std::atof(argv[5]));
    return 0;
  }
  cv::setNumThreads(1);
  CompareReading(work);
  CompareJpeg(OfSize(ReadAll(paths), 375, 500));
  CompareRaw(work);
  CompareImread(paths);
  CompareWorkers(paths, work);
  CompareBytes(paths, work);
  return 0;
}
