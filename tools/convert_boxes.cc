// convert_boxes: converts images with boxes, of PASCAL VOC, COCO or YOLO, to a data set for
// AnnotatedData.
#include <gflags/gflags.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "boxes/annotation.h"
#include "boxes/box_pictures.h"
#include "boxes/image_set.h"
#include "boxes/label_map.h"
#include "boxes/yolo.h"
#include "common/backend_flag.h"
#include "common/bad_flag.h"
#include "common/conversion.h"
#include "common/image_flags.h"
#include "common/interrupt.h"
#include "common/ordered_work.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/lists/class_names.h"
#include "data/pipeline/bad_samples.h"
#include "format/file.h"
#include "format/prototxt.h"

DEFINE_string(
    image_set, "trainval",
    "[Input NAMES] of VOC: names of files in ImageSets/Main, with commas between them, without "
    ".txt; of a data.yaml of YOLO: train, val or test, default train");
DEFINE_string(labelmap, "",
              "[Input FILE] LabelMap with the labels of the classes; default: of VOC, those of "
              "SSD; else the classes of the annotations from 1, in their order");
DEFINE_bool(find_classes, false,
            "[Run] number the classes of the annotations from 1, in the order of their names");
DEFINE_string(write_labelmap, "",
              "[Output FILE.prototxt] write the LabelMap that was used to this file");
DEFINE_bool(check_size, false,
            "[Run] refuse images whose size differs from their annotation; without it, only warn");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema convert_boxes [flags] INPUT... DB_NAME\n"
    "\n"
    "Writes images with their boxes to a new data set. An INPUT is a folder laid out like\n"
    "VOCdevkit/VOC2007 (Annotations, JPEGImages, ImageSets/Main), a .json file of COCO, or a\n"
    "folder of YOLO, with images/ and labels/ or below its images/, or a data.yaml that names\n"
    "such folders. DB_NAME gets AnnotatedDatums, as SSD's convert_annoset makes them, for the\n"
    "layer AnnotatedData. Image files are stored unchanged; --noencoded stores pixels. --labelmap\n"
    "gives classes other labels.\n"
    "\n"
    "Ctrl-C leaves a data set that --resume continues.\n"
    "\n"
    "Examples:\n"
    "crema convert_boxes --shuffle --write_labelmap=labelmap_voc.prototxt VOCdevkit/VOC2007 "
    "VOCdevkit/VOC2012 trainval_lmdb\n"
    "crema convert_boxes --write_labelmap=labelmap.prototxt annotations/instances_train2017.json "
    "train_lmdb\n"
    "crema convert_boxes --write_labelmap=labelmap.prototxt yolo/images/train train_lmdb";

namespace fs = std::filesystem;

using Labels = std::map<std::string, int>;

struct Entry {
  std::string name;        // in the key
  std::string image;       // path
  std::string place;       // where the image is named, for messages; may be empty
  std::string annotation;  // of VOC: path of the boxes; else they are here
  BoxAnnotation boxes;
};

// Images of one or several inputs of one kind.
struct Entries {
  std::vector<Entry> list;
  std::vector<std::string> classes;  // of COCO and YOLO, in their order
};

struct Outcome {
  uint64_t index = 0;
  std::string value;
  std::vector<std::string> warnings;
  std::optional<Error> fault;
};

DataParameter::DB CheckedBackend() {
  const DataParameter::DB backend = BackendOfFlag();
  if (backend == DataParameter::TAR) {
    Fail(ErrorCode::kUnsupported,
         "--backend=tar: tar shards hold labels, not boxes; use lmdb or leveldb");
  }
  return backend;
}

// Returns the pictures of COCO or YOLO, one set or several; nothing for another input.
std::vector<PictureSet> ReadPictures(const std::string& input) {
  std::error_code ignored;
  const bool voc = fs::exists(fs::path(input) / "Annotations", ignored);
  const bool folder = fs::is_directory(input, ignored) && !voc;
  const std::string data = IsYaml(input) ? input : folder ? FindYoloData(input) : "";
  std::vector<PictureSet> sets;
  if (!data.empty()) {
    std::set<std::string> done;
    for (const std::string& word : Split(IsGiven("image_set") ? FLAGS_image_set : "train", ',')) {
      const std::string set(Trim(word));
      if (set != "train" && set != "val" && set != "test") {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("--image_set: '", set, "' is not one of train, val, test, the sets of ", data));
      }
      if (done.insert(set).second) sets.push_back(ReadYoloData(data, {set}));
    }
    return sets;
  }
  const std::string names = folder ? FindYoloNames(input) : "";
  if (fs::path(input).extension() == ".json") {
    sets.push_back(ReadCocoPictures(input));
  } else if (!names.empty()) {
    sets.push_back(ReadYoloPictures(input, names));
  }
  if (!sets.empty() && IsGiven("image_set")) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--image_set is for PASCAL VOC and a data.yaml of YOLO; '", input, "' has ",
                sets[0].layout));
  }
  return sets;
}

void AddVoc(const std::string& folder, std::vector<Entry>* entries) {
  for (const std::string& set : Split(FLAGS_image_set, ',')) {
    for (VocEntry& voc : ReadImageSet(folder, std::string(Trim(set)))) {
      entries->push_back({std::move(voc.name),
                          std::move(voc.image),
                          StrCat(" (", voc.place, ")"),
                          std::move(voc.annotation),
                          {}});
    }
  }
}

Entries FindEntries(const std::vector<std::string>& inputs) {
  Entries entries;
  for (const std::string& input : inputs) {
    std::vector<PictureSet> sets = ReadPictures(input);
    if (sets.empty()) AddVoc(input, &entries.list);
    for (PictureSet& set : sets) {
      for (LabelledPicture& picture : set.pictures) {
        entries.list.push_back(
            {picture.name, set.PathOf(picture), "", "", std::move(picture.boxes)});
      }
    }
    const std::vector<std::string> classes =
        sets.empty() ? std::vector<std::string>() : sets[0].classes;
    if (&input != &inputs.front() && classes != entries.classes && FLAGS_labelmap.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("'", input, "' has other classes than '", inputs.front(),
                  "': give their labels with --labelmap"));
    }
    entries.classes = classes;
  }
  return entries;
}

BoxAnnotation ReadAnnotation(const Entry& entry) {
  if (entry.annotation.empty()) return entry.boxes;
  try {
    return ReadVocAnnotation(entry.annotation);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    Fail(error.code(), StrCat("'", entry.image, "'", entry.place,
                              " has no annotation: there is no file '", entry.annotation, "'"));
  }
}

// Ignores unreadable annotations, which are reported when their image is converted.
std::vector<std::string> ClassesIn(const std::vector<Entry>& entries) {
  std::set<std::string> names;
  for (const Entry& entry : entries) {
    try {
      for (const BoxObject& object : ReadAnnotation(entry).objects) {
        names.insert(object.name);
      }
    } catch (const Error& error) {
      if (!IsAboutSample(error)) throw;
    }
  }
  if (names.empty()) Fail(ErrorCode::kDataLoss, "--find_classes: no annotation has an object");
  return {names.begin(), names.end()};
}

LabelMap ChooseLabelMap(const Entries& entries) {
  if (FLAGS_find_classes && !FLAGS_labelmap.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--labelmap and --find_classes contradict each other");
  }
  if (FLAGS_find_classes && FLAGS_write_labelmap.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "--find_classes needs --write_labelmap, or the meaning of the labels is lost");
  }
  if (FLAGS_find_classes) return LabelMapOf(ClassesIn(entries.list));
  if (!FLAGS_labelmap.empty()) return ReadLabelMapFile(FLAGS_labelmap);
  return entries.classes.empty() ? VocLabelMap() : LabelMapOf(entries.classes);
}

// Describes everything that determines the records.
std::string Origin(const std::vector<Entry>& entries, const LabelMap& map) {
  uint64_t hash = 0;
  for (const Entry& entry : entries) hash = MixBits(hash, HashName(entry.name));
  return StrCat("images: ", entries.size(), ", list ", hash,
                "\nlabel map: ", HashName(PrintText(map)), "\nbackend: ", FLAGS_backend, "\n",
                DescribeImageFlags());
}

// Returns the index of the entry after the one with this key.
uint64_t IndexAfter(const std::string& key, const std::vector<Entry>& entries,
                    const std::string& path) {
  const uint64_t next = NumberAfter(key);
  if (next == 0) return 0;
  if (next <= entries.size() && ImageKey(next - 1, entries[next - 1].name) == key) return next;
  Fail(ErrorCode::kInvalidArgument, StrCat("'", path, "' ends with the key '", key,
                                           "', which these images do not have: remove it"));
}

// Writes the images from `begin` on.
class Converter {
 public:
  Converter(const std::vector<Entry>& entries, Labels labels, const ImageRecordOptions& options,
            Conversion* conversion)
      : entries_(entries),
        labels_(std::move(labels)),
        options_(options),
        conversion_(*conversion) {}

  // Returns false if interrupted by Ctrl-C.
  bool Run(uint64_t begin) {
    uint64_t next = begin;
    const auto read = [&]() -> std::optional<uint64_t> {
      if (next == entries_.size() || Interrupted()) return std::nullopt;
      return next++;
    };
    RunInOrder(
        WorkersOfFlags(), read, [this](uint64_t index) { return Make(index); },
        [this](const Outcome& outcome) { Write(outcome); });
    return next == entries_.size();
  }

 private:
  Outcome Make(uint64_t index) const {
    Outcome outcome{.index = index, .value = "", .warnings = {}, .fault = {}};
    try {
      MakeRecord(entries_[index], &outcome);
    } catch (const Error& error) {
      if (!IsAboutSample(error)) throw;
      outcome.fault = error;
    }
    return outcome;
  }

  void MakeRecord(const Entry& entry, Outcome* outcome) const {
    const BoxAnnotation annotation = ReadAnnotation(entry);
    constexpr int kNoLabel = -1;  // of the whole image, as in SSD
    const std::string name = StrCat("'", entry.image, "'", entry.place);
    ImageRecord image = MakeImageRecord(entry.image, kNoLabel, name, options_);
    CheckSize(annotation, image.file_size, outcome);
    AnnotatedDatum record;
    const std::vector<std::string> warnings =
        AddBoxes(annotation, labels_, image.file_size, &record);
    outcome->warnings.insert(outcome->warnings.end(), warnings.begin(), warnings.end());
    record.mutable_datum()->Swap(&image.datum);
    outcome->value = record.SerializeAsString();
  }

  static void CheckSize(const BoxAnnotation& annotation, const Shape& image, Outcome* outcome) {
    // The boxes of YOLO are in units of the image.
    if (annotation.width <= 1 || annotation.height <= 1) return;
    if (annotation.width == image[2] && annotation.height == image[1]) return;
    const std::string text =
        StrCat(annotation.path, ": says that the image is ", annotation.width, "x",
               annotation.height, ", but it is ", image[2], "x", image[1]);
    if (FLAGS_check_size) Fail(ErrorCode::kDataLoss, text);
    outcome->warnings.push_back(text + "; boxes are taken for parts of the former");
  }

  void Write(const Outcome& outcome) {
    for (const std::string& warning : outcome.warnings) conversion_.Warn(warning);
    if (!outcome.fault) {
      conversion_.Put(ImageKey(outcome.index, entries_[outcome.index].name), outcome.value);
    } else if (SkipsBad()) {
      conversion_.Skip(outcome.fault->what());
    } else {
      Fail(ErrorCode::kDataLoss,
           StrCat(outcome.fault->what(), "; --on_bad=skip leaves such images out"));
    }
  }

  const std::vector<Entry>& entries_;
  const Labels labels_;
  const ImageRecordOptions options_;
  Conversion& conversion_;
};

int Run(std::vector<std::string> arguments) {
  if (arguments.size() < 2) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected INPUT... DB_NAME, got ", arguments.size(), " arguments; see --help"));
  }
  const ImageRecordOptions options = ImageOptionsOfFlags();
  const DataParameter::DB backend = CheckedBackend();
  const std::string path = arguments.back();
  arguments.pop_back();
  Entries found = FindEntries(arguments);
  std::vector<Entry>& entries = found.list;
  CheckImageCount(entries.size());
  ShuffleByFlags(&entries);
  const LabelMap map = ChooseLabelMap(found);

  Conversion conversion({.path = path,
                         .backend = backend,
                         .resume = ResumeOfFlag(),
                         .origin = Origin(entries, map),
                         .keep_on_error = true,
                         .unit = "images",
                         .total = entries.size()});
  if (!FLAGS_write_labelmap.empty()) WriteFileAtomically(FLAGS_write_labelmap, PrintText(map));
  if (conversion.complete()) {
    std::cout << path << " is complete already\n";
    return 0;
  }
  const uint64_t begin = IndexAfter(conversion.last_key(), entries, path);
  conversion.StartFrom(begin);
  const bool all = Converter(entries, LabelsByName(map), options, &conversion).Run(begin);
  const int code = conversion.Finish(all);
  KeepClassNames(ClassNames(map), path);
  std::cout << conversion.Summary() << "\n";
  return code;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  gflags::SetCommandLineOptionWithMode("encoded", "true", gflags::SET_FLAGS_DEFAULT);
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
