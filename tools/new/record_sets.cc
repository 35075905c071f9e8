#include "new/record_sets.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "boxes/annotation.h"
#include "boxes/label_map.h"
#include "common/image_record.h"
#include "common/interrupt.h"
#include "common/log.h"
#include "common/ordered_work.h"
#include "common/progress_line.h"
#include "common/worker_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/record_db.h"
#include "format/data_file.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "new/mask_pictures.h"

namespace crema::tools {
namespace {

constexpr int kNoLabel = -1;  // of the whole picture

struct Made {
  size_t index = 0;
  std::string value;
  std::vector<std::string> warnings;
};

// Writes what `make` returns for each picture, in order.
void WriteRecords(const Job& job, const PictureSet& set, const std::string& name,
                  const std::function<Made(const LabelledPicture&)>& make) {
  const std::unique_ptr<RecordWriter> writer = CreateRecords(job.File(name), DataParameter::LMDB);
  ProgressLine progress({.unit = "pictures", .total = set.pictures.size()});
  size_t next = 0;
  const auto read = [&]() -> std::optional<size_t> {
    EndIfInterrupted();
    return next < set.pictures.size() ? std::optional(next++) : std::nullopt;
  };
  const auto work = [&](size_t index) {
    Made made = make(set.pictures[index]);
    made.index = index;
    return made;
  };
  const auto write = [&](const Made& made) {
    writer->Put(ImageKey(made.index, set.pictures[made.index].name), made.value);
    progress.Add();
    for (const std::string& warning : made.warnings) progress.Warn(warning);
  };
  RunInOrder(WorkersOfFlags(), read, work, write);
  writer->Close();
}

Datum DatumOf(const Image& image) {
  Datum datum;
  datum.set_channels(image.channels);
  datum.set_height(image.height);
  datum.set_width(image.width);
  datum.set_data(image.pixels.data(), image.pixels.size());
  return datum;
}

Image LabelsOf(const Job& job, const LabelledPicture& picture) {
  return Resize(ReadLabelMapImage(picture.mask), job.height, job.width, Interpolation::kNearest);
}

}  // namespace

void WriteLabelMap(const Job& job) {
  WriteFileAtomically(job.File("labelmap.prototxt"), PrintText(LabelMapOf(job.train.classes)));
}

void WriteBoxRecords(const Job& job, const PictureSet& set, const std::string& name) {
  const std::map<std::string, int> labels = LabelsByName(LabelMapOf(job.train.classes));
  WriteRecords(job, set, name, [&](const LabelledPicture& picture) {
    const std::string path = set.PathOf(picture);
    ImageRecordOptions options;
    options.encoded = true;
    ImageRecord image = MakeImageRecord(path, kNoLabel, StrCat("'", path, "'"), options);
    AnnotatedDatum record;
    Made made;
    made.warnings = AddBoxes(picture.boxes, labels, image.file_size, &record);
    record.mutable_datum()->Swap(&image.datum);
    made.value = record.SerializeAsString();
    return made;
  });
}

void WriteMaskedRecords(const Job& job, const PictureSet& set, const std::string& name) {
  WriteRecords(job, set, name, [&](const LabelledPicture& picture) {
    const std::string path = set.PathOf(picture);
    Image image;
    DecodeImage(ReadDataFile(path), ColorMode::kColor, StrCat("'", path, "'"), &image);
    image = Resize(image, job.height, job.width);
    const Image labels = LabelsOf(job, picture);
    image.channels += labels.channels;
    image.pixels.insert(image.pixels.end(), labels.pixels.begin(), labels.pixels.end());
    Made made;
    made.value = DatumOf(image).SerializeAsString();
    return made;
  });
}

void WriteLabelRecords(const Job& job, const PictureSet& set, const std::string& name) {
  WriteRecords(job, set, name, [&](const LabelledPicture& picture) {
    Made made;
    made.value = DatumOf(LabelsOf(job, picture)).SerializeAsString();
    return made;
  });
}

}  // namespace crema::tools
