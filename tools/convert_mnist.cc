// convert_mnist: converts the IDX files of MNIST, compressed or not, to a data set for the Data
// layer.
#include <gflags/gflags.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/backend_flag.h"
#include "common/conversion.h"
#include "common/interrupt.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"

DEFINE_bool(
    pairs, false,
    "[Output] random pairs of images, for siamese nets: two channels, label 1 if both are of "
    "one class");
DEFINE_uint64(seed, 1, "[Run] of --pairs: another seed, other pairs");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema convert_mnist [flags] IMAGES LABELS OUTPUT\n"
    "\n"
    "Writes MNIST's files to a new data set. IMAGES and LABELS are IDX files, gzipped or not;\n"
    "OUTPUT gets one Datum each, in the order of the files, under keys of eight digits.\n"
    "\n"
    "--pairs writes as many random pairs, as Caffe's convert_mnist_siamese_data does.\n"
    "Ctrl-C leaves a data set that --resume continues, unless it is tar.\n"
    "\n"
    "Examples:\n"
    "crema convert_mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz "
    "mnist_train_lmdb\n"
    "crema convert_mnist --backend=tar t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz "
    "mnist_test.tar\n"
    "crema convert_mnist --pairs train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz "
    "pairs_lmdb";

constexpr uint32_t kImagesMagic = 2051;
constexpr uint32_t kLabelsMagic = 2049;
constexpr uint32_t kMaxSide = 16384;  // pixels

// An IDX file; zlib passes through uncompressed data.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path), file_(Open(path)) {}

  const std::string& path() const { return path_; }

  // Throws kDataLoss if the file is too short.
  void Read(void* out, size_t bytes) {
    const int got = gzread(file_.get(), out, static_cast<unsigned>(bytes));
    if (got >= 0 && static_cast<size_t>(got) == bytes) return;
    Fail(ErrorCode::kDataLoss, StrCat("'", path_, "' is cut short or damaged: fetch it again"));
  }

  uint32_t ReadBigEndian() {
    std::array<uint8_t, 4> bytes{};
    Read(bytes.data(), bytes.size());
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  // Call it after the last record.
  void ExpectEnd() {
    char more = 0;
    const int got = gzread(file_.get(), &more, 1);
    if (got == 0) return;
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path_, "' ", got > 0 ? "is longer than its header says" : "is damaged"));
  }

 private:
  struct Closer {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };

  static gzFile_s* Open(const std::string& path) {
    OpenDataFile(path);  // throws for pipes and the like
    gzFile_s* file = gzopen(path.c_str(), "rb");
    if (file != nullptr) return file;
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIoFailure;
    Fail(code, StrCat("cannot open '", path, "': ", std::strerror(errno)));
  }

  const std::string path_;
  const std::unique_ptr<gzFile_s, Closer> file_;
};

void CheckMagic(IdxFile& images, IdxFile& labels) {
  const uint32_t first = images.ReadBigEndian();
  const uint32_t second = labels.ReadBigEndian();
  if (first == kLabelsMagic && second == kImagesMagic) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("images and labels are swapped: '", images.path(), "' holds the labels and '",
                labels.path(), "' the images"));
  }
  if (first != kImagesMagic) {
    Fail(ErrorCode::kDataLoss, StrCat("'", images.path(),
                                      "' is not an IDX file of images: it begins "
                                      "with ",
                                      first, ", not ", kImagesMagic));
  }
  if (second != kLabelsMagic) {
    Fail(ErrorCode::kDataLoss, StrCat("'", labels.path(),
                                      "' is not an IDX file of labels: it begins "
                                      "with ",
                                      second, ", not ", kLabelsMagic));
  }
}

struct Size {
  uint32_t count = 0;
  uint32_t height = 0;
  uint32_t width = 0;
};

struct Digit {
  std::string pixels;
  uint8_t label = 0;
};

// Writes images in the order of the files, or pairs of them.
class Writer {
 public:
  Writer(const Size& size, Conversion* conversion) : size_(size), conversion_(*conversion) {
    datum_.set_channels(FLAGS_pairs ? 2 : 1);
    datum_.set_height(static_cast<int>(size.height));
    datum_.set_width(static_cast<int>(size.width));
    begin_ = NumberAfter(conversion->last_key());
    conversion->StartFrom(begin_);
  }

  // Returns false if interrupted by Ctrl-C.
  bool Run(IdxFile* images, IdxFile* labels) {
    std::vector<Digit> all;  // of pairs, whose images may be anywhere
    Digit digit{.pixels = std::string(size_t{size_.height} * size_.width, '\0')};
    for (uint32_t i = 0; i < size_.count; ++i) {
      if (Interrupted()) return false;
      images->Read(digit.pixels.data(), digit.pixels.size());
      labels->Read(&digit.label, 1);
      if (FLAGS_pairs) {
        all.push_back(digit);
      } else {
        Put(i, digit.pixels, digit.label);
      }
    }
    images->ExpectEnd();
    labels->ExpectEnd();
    return !FLAGS_pairs || PutPairs(all);
  }

 private:
  // As in Caffe, both images of a pair are drawn from all.
  bool PutPairs(const std::vector<Digit>& all) {
    const RandomStream random(FLAGS_seed, HashName("convert_mnist pairs"));
    for (uint32_t i = 0; i < size_.count; ++i) {
      if (Interrupted()) return false;
      const Digit& first = all[random.Below(uint64_t{2} * i, all.size())];
      const Digit& second = all[random.Below(uint64_t{2} * i + 1, all.size())];
      Put(i, first.pixels + second.pixels, first.label == second.label ? 1 : 0);
    }
    return true;
  }

  void Put(uint32_t index, const std::string& pixels, int label) {
    if (index < begin_) return;
    datum_.set_data(pixels);
    datum_.set_label(label);
    datum_.SerializeToString(&value_);
    std::array<char, 16> key{};
    std::snprintf(key.data(), key.size(), "%08u", index);
    conversion_.Put(key.data(), value_);
  }

  const Size size_;
  Conversion& conversion_;
  Datum datum_;
  std::string value_;
  uint64_t begin_ = 0;
};

// Describes everything that determines the records.
std::string Origin(const std::string& images, const std::string& labels) {
  const std::string pairs = FLAGS_pairs ? StrCat("pairs of seed: ", FLAGS_seed, "\n") : "";
  return StrCat("images: ", images, "\nlabels: ", labels, "\nbackend: ", FLAGS_backend, "\n",
                pairs);
}

int Convert(const std::string& images_path, const std::string& labels_path,
            const std::string& output) {
  IdxFile images(images_path);
  IdxFile labels(labels_path);
  CheckMagic(images, labels);
  const uint32_t count = images.ReadBigEndian();
  const uint32_t label_count = labels.ReadBigEndian();
  if (count != label_count) {
    Fail(ErrorCode::kDataLoss, StrCat("'", images_path, "' holds ", count, " images, but '",
                                      labels_path, "' holds ", label_count, " labels"));
  }
  const uint32_t height = images.ReadBigEndian();
  const uint32_t width = images.ReadBigEndian();
  if (count == 0 || height == 0 || width == 0 || height > kMaxSide || width > kMaxSide) {
    Fail(ErrorCode::kDataLoss, StrCat("'", images_path, "' says that it holds ", count,
                                      " images of ", height, "x", width));
  }

  const std::string unit = FLAGS_pairs ? "pairs" : "images";
  Conversion conversion({.path = output,
                         .backend = BackendOfFlag(),
                         .resume = ResumeOfFlag(),
                         .origin = Origin(images_path, labels_path),
                         .unit = unit,
                         .total = count});
  if (conversion.complete()) {
    std::cout << output << " is complete already\n";
    return 0;
  }
  const Size size{.count = count, .height = height, .width = width};
  const bool all = Writer(size, &conversion).Run(&images, &labels);
  const int code = conversion.Finish(all);
  std::cout << "Wrote " << conversion.written() << " " << unit << " of " << height << "x" << width
            << " to " << output << "\n";
  return code;
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected IMAGES LABELS OUTPUT, got ", arguments.size(), " arguments; see --help"));
  }
  if (!FLAGS_pairs && FLAGS_seed != 1) {
    Fail(ErrorCode::kInvalidArgument, "--seed chooses pairs: give --pairs, too");
  }
  return Convert(arguments[0], arguments[1], arguments[2]);
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
