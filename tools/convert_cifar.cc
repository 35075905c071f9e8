// convert_cifar: converts the binary files of CIFAR-10 and CIFAR-100 to data sets for the Data
// layer.
#include <gflags/gflags.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
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

DEFINE_string(labels, "fine",
              "[Input fine|coarse] of CIFAR-100: fine (100 classes) or coarse (20)");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema convert_cifar [flags] INPUT_FOLDER OUTPUT_FOLDER [BACKEND]\n"
    "\n"
    "Writes CIFAR-10 or CIFAR-100 to new data sets. INPUT_FOLDER has the binary batches\n"
    "(data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin);\n"
    "OUTPUT_FOLDER gets cifar10_train_BACKEND and cifar10_test_BACKEND (cifar100_...): a\n"
    "Datum of 3x32x32 bytes each, in the order of the files (red, green, blue), under keys of\n"
    "five digits, as Caffe does.\n"
    "\n"
    "compute_image_mean makes the mean. Ctrl-C leaves data sets that --resume continues,\n"
    "unless they are tar.\n"
    "\n"
    "Examples:\n"
    "crema convert_cifar cifar-10-batches-bin build/data\n"
    "crema convert_cifar --labels=coarse cifar-100-binary build/data";

constexpr int kSide = 32;
constexpr size_t kPixels = size_t{3} * kSide * kSide;

// Files of a folder, and their record format.
struct Layout {
  std::string name;
  size_t labels = 1;  // bytes before the pixels of an image
  size_t label = 0;   // index of the label to use
  std::vector<std::string> train;
  std::vector<std::string> test;
};

Layout Cifar10() {
  Layout layout{.name = "cifar10", .train = {}, .test = {"test_batch.bin"}};
  for (int i = 1; i <= 5; ++i) layout.train.push_back(StrCat("data_batch_", i, ".bin"));
  return layout;
}

Layout Cifar100() {
  if (FLAGS_labels != "fine" && FLAGS_labels != "coarse") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--labels: '", FLAGS_labels, "' is not fine or coarse"));
  }
  return {.name = "cifar100",
          .labels = 2,
          .label = FLAGS_labels == "fine" ? size_t{1} : size_t{0},
          .train = {"train.bin"},
          .test = {"test.bin"}};
}

Layout FindLayout(const std::string& folder) {
  for (const Layout& layout : {Cifar10(), Cifar100()}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder + "/" + layout.test[0], ignored)) return layout;
  }
  Fail(ErrorCode::kNotFound,
       StrCat("'", folder, "' holds neither test_batch.bin (CIFAR-10) nor test.bin (CIFAR-100): ",
              "unpack the archive with the binary version there"));
}

// Returns the records of one file. Throws kDataLoss unless it holds whole images.
std::string ReadBatch(const std::string& path, const Layout& layout) {
  std::string bytes = ReadDataFile(path);
  const size_t record = layout.labels + kPixels;
  if (bytes.empty() || bytes.size() % record != 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "' has ", bytes.size(), " bytes, which are not whole images of ", record,
                " bytes: it is cut short or no file of ", layout.name));
  }
  return bytes;
}

// Writes one data set; numbers the images across files. Returns false if interrupted by Ctrl-C.
bool WriteAll(const std::string& folder, const std::vector<std::string>& files,
              const Layout& layout, Conversion* conversion) {
  const uint64_t begin = NumberAfter(conversion->last_key());
  conversion->StartFrom(begin);
  const size_t record = layout.labels + kPixels;
  Datum datum;
  datum.set_channels(3);
  datum.set_height(kSide);
  datum.set_width(kSide);
  uint64_t index = 0;
  for (const std::string& file : files) {
    const std::string bytes = ReadBatch(StrCat(folder, "/", file), layout);
    for (size_t at = 0; at < bytes.size(); at += record, ++index) {
      if (Interrupted()) return false;
      if (index < begin) continue;
      datum.set_label(static_cast<uint8_t>(bytes[at + layout.label]));
      datum.set_data(bytes.data() + at + layout.labels, kPixels);
      char key[24];
      std::snprintf(key, sizeof(key), "%05lu", index);
      conversion->Put(key, datum.SerializeAsString());
    }
  }
  return true;
}

uint64_t CountImages(const std::string& folder, const std::vector<std::string>& files,
                     const Layout& layout) {
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += OpenDataFile(StrCat(folder, "/", file))->size();
  return bytes / (layout.labels + kPixels);
}

int Convert(const std::string& folder, const std::vector<std::string>& files, const Layout& layout,
            const std::string& output) {
  Conversion conversion({.path = output,
                         .backend = BackendOfFlag(),
                         .resume = ResumeOfFlag(),
                         .origin = StrCat("images: ", layout.name, " in ", folder, "\nbackend: ",
                                          FLAGS_backend, "\nlabels: ", layout.label, "\n"),
                         .total = CountImages(folder, files, layout)});
  if (conversion.complete()) {
    std::cout << output << " is complete already\n";
    return 0;
  }
  const bool all = WriteAll(folder, files, layout, &conversion);
  const int code = conversion.Finish(all);
  std::cout << "Wrote " << conversion.written() << " images to " << output << "\n";
  return code;
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 && arguments.size() != 3) {
    Fail(ErrorCode::kInvalidArgument, StrCat("expected INPUT_FOLDER OUTPUT_FOLDER, got ",
                                             arguments.size(), " arguments; see --help"));
  }
  if (arguments.size() == 3) FLAGS_backend = arguments[2];  // position in Caffe's command
  BackendOfFlag();
  const std::string& folder = arguments[0];
  const Layout layout = FindLayout(folder);
  std::error_code failure;
  std::filesystem::create_directories(arguments[1], failure);
  if (failure) {
    Fail(ErrorCode::kIoFailure,
         StrCat("cannot make the folder '", arguments[1], "': ", failure.message()));
  }
  for (const auto& [part, files] : {std::pair{"train", &layout.train}, {"test", &layout.test}}) {
    const std::string output =
        StrCat(arguments[1], "/", layout.name, "_", part, "_", FLAGS_backend);
    if (const int code = Convert(folder, *files, layout, output); code != 0) return code;
  }
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
