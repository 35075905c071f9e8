// convert_db: converts data sets between formats: LMDB, LevelDB, tar shards, HDF5.
#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/backend_flag.h"
#include "common/bad_flag.h"
#include "common/conversion.h"
#include "common/interrupt.h"
#include "common/ordered_work.h"
#include "common/record_pixels.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "convert_db/record_change.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/pipeline/bad_samples.h"
#include "data/records/hdf5_records.h"
#include "data/records/lmdb.h"
#include "data/records/record_db.h"
#include "data/records/tar_shards.h"

DEFINE_string(hdf5_data, "data", "[Expert NAME] name of the HDF5 dataset with the samples");
DEFINE_string(hdf5_label, "label", "[Expert NAME] name of the HDF5 dataset with the labels");
DEFINE_uint64(rows_per_file, 0, "[Output] rows of each HDF5 file that is written; 0: about a GiB");
DEFINE_bool(
    bytes, false,
    "[Output] store the values of HDF5 as bytes; each must be a whole number from 0 to 255");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema convert_db [flags] INPUT OUTPUT\n"
    "\n"
    "Writes the records of a data set to a new one of another kind. INPUT is an LMDB, a\n"
    "LevelDB, tar shards (file, folder or pattern), an HDF5 file, a list of them, or a folder\n"
    "that this command wrote. Between LMDB and LevelDB records are copied unchanged. Tar\n"
    "shards get image files, and raw pixels as PNG. HDF5 gets raw pixels (image files are\n"
    "decoded): OUTPUT is a folder, and HDF5Data reads OUTPUT/list.txt. HDF5 becomes Datums of\n"
    "floats, or of bytes with --bytes.\n"
    "\n"
    "--on_bad=skip decodes every record, and leaves out those that are broken. Ctrl-C leaves\n"
    "a valid data set; --resume continues all but tar, and HDF5 with --on_bad=skip.\n"
    "\n"
    "Examples:\n"
    "crema convert_db --backend=hdf5 mnist_train_lmdb mnist_train_h5\n"
    "crema convert_db --backend=tar train_lmdb train.tar";

struct Target {
  SetKind kind = SetKind::kDatabase;
  DataParameter::DB backend = DataParameter::LMDB;
};

Target TargetOfFlags() {
  if (FLAGS_backend == "hdf5") return {.kind = SetKind::kHdf5};
  const std::array<std::string, 4> names = {"lmdb", "leveldb", "tar", "hdf5"};
  if (std::ranges::find(names, FLAGS_backend) == names.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--backend: '", FLAGS_backend, "' is not lmdb, leveldb, tar or hdf5",
                DidYouMean(FLAGS_backend, names)));
  }
  const DataParameter::DB backend = BackendOfFlag();
  return {.kind = backend == DataParameter::TAR ? SetKind::kTar : SetKind::kDatabase,
          .backend = backend};
}

Hdf5RecordOptions Hdf5Options() {
  return {.data = FLAGS_hdf5_data,
          .label = FLAGS_hdf5_label,
          .bytes = FLAGS_bytes,
          .rows_per_file = FLAGS_rows_per_file};
}

struct Source {
  SetKind kind = SetKind::kDatabase;
  std::unique_ptr<RecordReader> reader;
};

Source OpenSource(const std::string& path) {
  if (LooksLikeHdf5Records(path)) {
    return {.kind = SetKind::kHdf5, .reader = OpenHdf5Records(path, Hdf5Options())};
  }
  Source source{.kind = SetKind::kDatabase, .reader = OpenRecords(path)};
  if (FLAGS_bytes) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--bytes is about the floats of HDF5, which '", path, "' is not"));
  }
  const bool database = LooksLikeLmdb(path) || !LooksLikeTarShards(path);
  if (!database) source.kind = SetKind::kTar;
  return source;
}

// Returns the number of the first record that the output lacks; moves the reader there.
uint64_t FindBegin(const Source& source, SetKind target, const std::string& last_key) {
  const bool numbered = target == SetKind::kHdf5 || source.kind != SetKind::kDatabase;
  uint64_t begin = 0;
  if (numbered) {
    begin = NumberAfter(last_key);
  } else if (!last_key.empty()) {
    while (begin < source.reader->count() && source.reader->Next().key <= last_key) ++begin;
  }
  if (begin < source.reader->count()) source.reader->Seek(begin);
  return begin;
}

// A record in progress, or why there is none.
struct Item {
  uint64_t index = 0;
  KeyedValue record;
  std::optional<Error> fault;
};

// Writes the records of a source from a given one on.
class Converter {
 public:
  Converter(const std::string& name, const Source& source, SetKind target, Conversion* conversion)
      : name_(name), source_(source), target_(target), conversion_(*conversion) {}

  // Returns false if interrupted by Ctrl-C.
  bool Run(uint64_t begin) {
    const uint64_t count = source_.reader->count();
    uint64_t next = begin;
    const auto read = [&]() -> std::optional<Item> {
      if (next >= count || Interrupted()) return std::nullopt;
      return Read(next++);
    };
    RunInOrder(
        WorkersOfFlags(), read, [this](Item item) { return Change(std::move(item)); },
        [this](const Item& item) { Write(item); });
    return next >= count;
  }

 private:
  Item Read(uint64_t index) {
    Item item{.index = index, .record = {}, .fault = {}};
    try {
      const KeyedRecord record = source_.reader->Next();
      item.record = {std::string(record.key), std::string(record.value)};
    } catch (const Error& error) {
      // After damage to a database, the next record is undefined.
      if (source_.kind == SetKind::kDatabase || !IsAboutSample(error)) throw;
      item.fault = error;
    }
    return item;
  }

  Item Change(Item item) const {
    if (item.fault) return item;
    try {
      if (skips_) RecordPixels(name_).Read(item.record.key, item.record.value);
      item.record = ChangeRecord(source_.kind, target_, name_, item.index, std::move(item.record));
    } catch (const Error& error) {
      if (!IsAboutSample(error)) throw;
      item.fault = error;
    }
    return item;
  }

  void Write(const Item& item) {
    if (!item.fault) {
      conversion_.Put(item.record.key, item.record.value);
    } else if (skips_) {
      conversion_.Skip(item.fault->what());
    } else {
      Fail(item.fault->code(),
           StrCat(item.fault->what(), "; --on_bad=skip leaves such records out"));
    }
  }

  const std::string& name_;
  const Source& source_;
  const SetKind target_;
  Conversion& conversion_;
  const bool skips_ = SkipsBad();
};

void RefuseFloatsInTar(const std::string& input, const Source& source, const Target& target) {
  if (source.kind != SetKind::kHdf5 || target.kind != SetKind::kTar || FLAGS_bytes) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", input, "' holds floats, and tar shards hold image files: add --bytes, if all ",
              "values are whole numbers from 0 to 255, or take another --backend"));
}

Conversion::Options OptionsOf(const std::string& input, const std::string& output,
                              const Target& target, uint64_t count) {
  Conversion::Options options{
      .path = output,
      .backend = target.backend,
      .resume = ResumeOfFlag(),
      .origin = StrCat("input: ", input, "\nrecords: ", count, "\nbackend: ", FLAGS_backend,
                       "\nbytes: ", FLAGS_bytes, "\nrows_per_file: ", FLAGS_rows_per_file,
                       "\nhdf5_data: ", FLAGS_hdf5_data, "\nhdf5_label: ", FLAGS_hdf5_label, "\n"),
      .unit = "records",
      .total = count};
  if (target.kind == SetKind::kHdf5) {
    // Other formats continue after the last key, independent of skipped records before it.
    options.origin += StrCat("on_bad: ", SkipsBad() ? "skip" : "error", "\n");
    options.create = [output] { return CreateHdf5Records(output, Hdf5Options()); };
    // HDF5 rows do not reveal skipped records.
    if (!SkipsBad()) {
      options.append = [output] { return AppendHdf5Records(output, Hdf5Options()); };
    }
  }
  return options;
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected INPUT OUTPUT, got ", arguments.size(), " arguments; see --help"));
  }
  const std::string& input = arguments[0];
  const std::string& output = arguments[1];
  const Target target = TargetOfFlags();
  SkipsBad();
  const Source source = OpenSource(input);
  RefuseFloatsInTar(input, source, target);
  Conversion conversion(OptionsOf(input, output, target, source.reader->count()));
  if (conversion.complete()) {
    std::cout << output << " is complete already\n";
    return 0;
  }
  const uint64_t begin = FindBegin(source, target.kind, conversion.last_key());
  conversion.StartFrom(begin);
  const bool all = Converter(input, source, target.kind, &conversion).Run(begin);
  const int code = conversion.Finish(all);
  std::cout << conversion.Summary() << "\n";
  return code;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
