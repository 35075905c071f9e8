// convert_mnist: converts the IDX files of MNIST, compressed or not, to a data set for the Data
// layer.
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
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema convert_mnist [flags] IMAGES LABELS OUTPUT\n"
    "\n"
    "Writes MNIST's files to a new data set. IMAGES and LABELS are IDX files, gzipped or not;\n"
    "OUTPUT gets one Datum each, in the order of the files, under keys of eight digits.\n"
    "\n"
    "Ctrl-C leaves a data set that --resume continues, unless it is tar.\n"
    "\n"
    "Examples:\n"
    "crema convert_mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz "
    "mnist_train_lmdb\n"
    "crema convert_mnist --backend=tar t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz "
    "mnist_test.tar";

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

// Returns false if interrupted by Ctrl-C.
bool WriteAll(IdxFile* images, IdxFile* labels, const Size& size, Conversion* conversion) {
  const uint64_t begin = NumberAfter(conversion->last_key());
  conversion->StartFrom(begin);
  Datum datum;
  datum.set_channels(1);
  datum.set_height(static_cast<int>(size.height));
  datum.set_width(static_cast<int>(size.width));
  std::string pixels(size_t{size.height} * size.width, '\0');
  std::string value;
  std::array<char, 16> key{};
  for (uint32_t i = 0; i < size.count; ++i) {
    if (Interrupted()) return false;
    uint8_t label = 0;
    images->Read(pixels.data(), pixels.size());
    labels->Read(&label, 1);
    if (i < begin) continue;
    datum.set_data(pixels);
    datum.set_label(label);
    datum.SerializeToString(&value);
    std::snprintf(key.data(), key.size(), "%08u", i);
    conversion->Put(key.data(), value);
  }
  images->ExpectEnd();
  labels->ExpectEnd();
  return true;
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

  Conversion conversion({.path = output,
                         .backend = BackendOfFlag(),
                         .resume = ResumeOfFlag(),
                         .origin = StrCat("images: ", images_path, "\nlabels: ", labels_path,
                                          "\nbackend: ", FLAGS_backend, "\n"),
                         .total = count});
  if (conversion.complete()) {
    std::cout << output << " is complete already\n";
    return 0;
  }
  const Size size{.count = count, .height = height, .width = width};
  const bool all = WriteAll(&images, &labels, size, &conversion);
  const int code = conversion.Finish(all);
  std::cout << "Wrote " << conversion.written() << " images of " << height << "x" << width << " to "
            << output << "\n";
  return code;
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected IMAGES LABELS OUTPUT, got ", arguments.size(), " arguments; see --help"));
  }
  return Convert(arguments[0], arguments[1], arguments[2]);
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
