// convert_imageset: converts image files to a data set for the Data layer. Extends Caffe's command.
#include <gflags/gflags.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/backend_flag.h"
#include "common/bad_flag.h"
#include "common/conversion.h"
#include "common/image_flags.h"
#include "common/interrupt.h"
#include "common/ordered_work.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "convert_imageset/image_entries.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/lists/class_names.h"
#include "data/pipeline/bad_samples.h"
#include "data/records/record_db.h"
#include "format/file.h"

DEFINE_bool(check_size, false, "[Run] refuse images of another size than the first");
DEFINE_string(classes, "",
              "[Output FILE.txt] write the names of class folders to this file, a line each");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema convert_imageset [flags] ROOTFOLDER LISTFILE DB_NAME\n"
    "crema convert_imageset [flags] ROOTFOLDER DB_NAME\n"
    "\n"
    "Writes image files to a new data set. LISTFILE names them (`path label` a line, or CSV\n"
    "if it ends with .csv); each becomes one Datum. Without a list, each folder in ROOTFOLDER\n"
    "is a class, labelled in the order of their names.\n"
    "\n"
    "Ctrl-C leaves a data set that --resume continues, unless it is tar.\n"
    "\n"
    "Examples:\n"
    "crema convert_imageset --classes=names.txt train/ train_lmdb\n"
    "crema convert_imageset --resize_width=256 --resize_height=256 train/ train.txt "
    "train_lmdb";

struct Outcome {
  uint64_t index = 0;
  ImageRecord record;
  std::optional<Error> fault;
};

// Without class names if there is a list.
ClassFolders FindEntries(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3) {
    if (!FLAGS_classes.empty()) {
      Fail(ErrorCode::kInvalidArgument, "--classes is about class folders; a list has no names");
    }
    if (std::error_code ignored; std::filesystem::is_regular_file(arguments[0], ignored)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("'", arguments[0],
                  "' is a file: the order is ROOTFOLDER LISTFILE DB_NAME; see --help"));
    }
    ClassFolders listed;
    listed.entries = ReadImageEntries(arguments[1], arguments[0]);
    return listed;
  }
  ClassFolders folders = ReadClassFolders(arguments[0]);
  if (!FLAGS_classes.empty()) {
    WriteFileAtomically(FLAGS_classes, Join(folders.classes, "\n") + "\n");
  }
  return folders;
}

// Describes everything that determines the records.
std::string Origin(const std::vector<ImageEntry>& entries) {
  uint64_t hash = 0;
  for (const ImageEntry& entry : entries) {
    hash = MixBits(MixBits(hash, HashName(entry.path)), static_cast<uint64_t>(entry.label));
  }
  return StrCat("images: ", entries.size(), ", list ", hash, "\nbackend: ", FLAGS_backend, "\n",
                DescribeImageFlags());
}

// Returns the index of the entry after the one with this key.
uint64_t IndexAfter(const std::string& key, const std::vector<ImageEntry>& entries,
                    const std::string& path) {
  const uint64_t next = NumberAfter(key);
  if (next == 0) return 0;
  if (next <= entries.size() && ImageKey(next - 1, entries[next - 1].name) == key) return next;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", path, "' ends with the key '", key,
              "', so it was made of other images; choose another path"));
}

// Throws kInvalidArgument if a finished data set was made of other images.
void CheckFinished(const std::string& path, const std::vector<ImageEntry>& entries) {
  const std::unique_ptr<RecordReader> records = OpenRecords(path);
  records->Seek(records->count() - 1);
  const uint64_t done = IndexAfter(std::string(records->Next().key), entries, path);
  if (done == entries.size() || SkipsBad()) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", path, "' was finished with the first ", done, " of these ", entries.size(),
              " images; choose another path"));
}

// Compares with the size of the first valid image.
class SizeCheck {
 public:
  // Returns the fault of an image's size, or nothing.
  std::string Fault(const ImageEntry& entry, const Shape& size) {
    if (first_.empty()) {
      first_ = entry.Describe();
      size_ = size;
    }
    if (size == size_) return "";
    return StrCat(entry.Describe(), ": the image is ", ToString(size), " (channels x height x ",
                  "width), but the first one, ", first_, ", is ", ToString(size_));
  }

 private:
  std::string first_;
  Shape size_;
};

// Writes the images from `begin` on.
class Converter {
 public:
  Converter(const std::vector<ImageEntry>& entries, const ImageRecordOptions& options,
            Conversion* conversion)
      : entries_(entries), options_(options), conversion_(*conversion) {}

  // Returns false if interrupted by Ctrl-C.
  bool Run(uint64_t begin) {
    if (begin > 0 && FLAGS_check_size) TakeSizeFromRecords(begin);
    uint64_t next = begin;
    const auto read = [&]() -> std::optional<uint64_t> {
      if (next == entries_.size() || Interrupted()) return std::nullopt;
      return next++;
    };
    RunInOrder(
        WorkersOfFlags(), read, [this](uint64_t index) { return Make(index); },
        [this](Outcome outcome) { Write(std::move(outcome)); });
    return next == entries_.size();
  }

 private:
  Outcome Make(uint64_t index) const {
    Outcome outcome{.index = index, .record = {}, .fault = {}};
    const ImageEntry& entry = entries_[index];
    try {
      outcome.record = MakeImageRecord(entry.path, entry.label, entry.Describe(), options_);
    } catch (const Error& error) {
      if (!IsAboutSample(error)) throw;
      outcome.fault = error;
    }
    return outcome;
  }

  void Write(Outcome outcome) {
    const ImageEntry& entry = entries_[outcome.index];
    if (!outcome.fault) {
      const std::string fault = size_check_.Fault(entry, outcome.record.size);
      if (!fault.empty() && FLAGS_check_size) {
        outcome.fault = Error({ErrorCode::kDataLoss, {}, fault});
      } else if (!fault.empty() && !std::exchange(warned_, true)) {
        conversion_.Warn(StrCat(fault,
                                "; a Data layer reads images of several sizes with "
                                "crop_size only: --resize_height and --resize_width give "
                                "them one"));
      }
    }
    if (!outcome.fault) {
      conversion_.Put(ImageKey(outcome.index, entry.name),
                      outcome.record.datum.SerializeAsString());
      return;
    }
    if (SkipsBad()) {
      conversion_.Skip(outcome.fault->what());
      return;
    }
    Fail(ErrorCode::kDataLoss,
         StrCat(outcome.fault->what(), "; --on_bad=skip leaves such images out, as Caffe does"));
  }

  // Takes the reference size from the records of an earlier command.
  void TakeSizeFromRecords(uint64_t end) {
    for (uint64_t index = 0; index < end; ++index) {
      const Outcome outcome = Make(index);
      if (outcome.fault) continue;
      size_check_.Fault(entries_[index], outcome.record.size);
      return;
    }
  }

  const std::vector<ImageEntry>& entries_;
  const ImageRecordOptions options_;
  Conversion& conversion_;
  SizeCheck size_check_;
  bool warned_ = false;  // about sizes
};

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 && arguments.size() != 3) {
    Fail(ErrorCode::kInvalidArgument, StrCat("expected ROOTFOLDER LISTFILE DB_NAME, got ",
                                             arguments.size(), " arguments; see --help"));
  }
  const ImageRecordOptions options = ImageOptionsOfFlags();
  const DataParameter::DB backend = BackendOfFlag();
  ClassFolders folders = FindEntries(arguments);
  std::vector<ImageEntry> entries = std::move(folders.entries);
  CheckImageCount(entries.size());
  ShuffleByFlags(&entries);

  const std::string& path = arguments.back();
  Conversion conversion({.path = path,
                         .backend = backend,
                         .resume = ResumeOfFlag(),
                         .origin = Origin(entries),
                         .keep_on_error = true,
                         .unit = "images",
                         .total = entries.size()});
  if (conversion.complete()) {
    if (backend != DataParameter::TAR) CheckFinished(path, entries);
    std::cout << path << " is complete already\n";
    return 0;
  }
  const uint64_t begin = IndexAfter(conversion.last_key(), entries, path);
  conversion.StartFrom(begin);
  const bool all = Converter(entries, options, &conversion).Run(begin);
  const int code = conversion.Finish(all);
  KeepClassNames(folders.classes, path);
  std::cout << conversion.Summary() << "\n";
  return code;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
