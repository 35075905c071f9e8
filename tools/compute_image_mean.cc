// compute_image_mean: computes the mean of a data set, like Caffe, and the standard deviation of
// each channel.
#include <gflags/gflags.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/backend_flag.h"
#include "common/ordered_work.h"
#include "common/output_file.h"
#include "common/progress_line.h"
#include "common/record_pixels.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "compute_image_mean/image_sums.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/records/datum.h"
#include "format/file.h"

DEFINE_bool(channels_only, false,
            "[Run] means of channels only, so that the sizes of images may differ");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema compute_image_mean [flags] INPUT_DB [OUTPUT_FILE]\n"
    "\n"
    "Computes the mean image of a data set. Writes it to OUTPUT_FILE, a BlobProto for\n"
    "transform_param.mean_file, and prints the mean and the standard deviation of each\n"
    "channel, and the means as lines of a net. The content of INPUT_DB decides its kind, not\n"
    "--backend.\n"
    "\n"
    "Examples:\n"
    "crema compute_image_mean train_lmdb mean.binaryproto\n"
    "crema compute_image_mean --channels_only train_lmdb";

// A worker's result for one image.
struct Summed {
  std::string name;
  ChannelSums sums;
  Shape size;
  std::vector<uint8_t> bytes;  // its pixels, unless channels_only
  std::vector<float> floats;   // likewise, if they are not bytes

  PixelView View() const {
    return {static_cast<int>(size[0]), static_cast<int>(size[1]), static_cast<int>(size[2]),
            bytes.empty() ? nullptr : bytes.data(), floats.empty() ? nullptr : floats.data()};
  }
};

Summed Sum(const OwnedRecord& record, const std::string& path) {
  RecordPixels reader(path);
  const PixelView view = reader.Read(record.key, record.value);
  Summed summed{.name = RecordName(path, record.key),
                .sums = SumChannels(view),
                .size = view.shape(),
                .bytes = {},
                .floats = {}};
  if (FLAGS_channels_only) return summed;
  const auto count = static_cast<size_t>(summed.size.count());
  if (view.bytes != nullptr) {
    summed.bytes.assign(view.bytes, view.bytes + count);
  } else {
    summed.floats.assign(view.floats, view.floats + count);
  }
  return summed;
}

ImageSums SumAll(const std::string& path) {
  RecordPass records(path);
  ProgressLine progress({.unit = "images", .total = records.count()});
  ImageSums sums(FLAGS_channels_only);
  RunInOrder(
      WorkersOfFlags(), [&] { return records.Next(); },
      [&](const OwnedRecord& record) { return Sum(record, path); },
      [&](const Summed& image) {
        sums.Add(image.View(), image.sums, image.name);
        progress.Add();
      });
  return sums;
}

void Print(const ImageSums& sums) {
  std::printf("%lu images%s\n", sums.count(),
              sums.one_size() ? StrCat(" of ", ToString(sums.first_size())).c_str() : "");
  const std::vector<ImageSums::Moments> channels = sums.Channels();
  for (size_t c = 0; c < channels.size(); ++c) {
    std::printf("mean_value channel [%zu]: %.6g\n", c, channels[c].mean);
  }
  for (size_t c = 0; c < channels.size(); ++c) {
    std::printf("std channel [%zu]: %.6g\n", c, channels[c].deviation);
  }
  // To be pasted into a net.
  std::string values;
  char value[32];
  for (const ImageSums::Moments& channel : channels) {
    std::snprintf(value, sizeof(value), "mean_value: %.6g ", channel.mean);
    values += value;
  }
  std::printf("transform_param { %s}\n", values.c_str());
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2) {
    Fail(ErrorCode::kInvalidArgument, StrCat("expected INPUT_DB [OUTPUT_FILE], got ",
                                             arguments.size(), " arguments; see --help"));
  }
  BackendOfFlag();
  if (FLAGS_channels_only && arguments.size() == 2) {
    Fail(ErrorCode::kInvalidArgument,
         "--channels_only makes no mean image, so there is nothing to write to OUTPUT_FILE");
  }
  if (arguments.size() == 2) {
    ProtectedFiles({}).RefuseToReplace("OUTPUT_FILE", arguments[1], ".binaryproto");
    CheckOutputFile(arguments[1]);
  }
  const ImageSums sums = SumAll(arguments[0]);
  Print(sums);
  if (arguments.size() == 2) {
    WriteFileAtomically(arguments[1], sums.MeanImage().SerializeAsString());
  }
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
