// Small data sets of images with boxes. Needs OpenCV.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/image_files.h"
#include "data/record_sets.h"
#include "data/records/record_db.h"
#include "support/temp_dir.h"

namespace crema::testing {

struct TestBox {
  int label;
  float xmin, ymin, xmax, ymax;
};

// Boxes of label 2 are difficult; the label of the image is 40 and the number of boxes.
inline AnnotatedDatum Annotated(const cv::Mat& image, const std::vector<TestBox>& boxes) {
  AnnotatedDatum record;
  record.mutable_datum()->set_encoded(true);
  record.mutable_datum()->set_data(Encode(image));
  record.mutable_datum()->set_label(40 + static_cast<int>(boxes.size()));
  record.set_type(AnnotatedDatum::BBOX);
  int instance = 0;
  for (const TestBox& box : boxes) {
    AnnotationGroup* group = record.add_annotation_group();
    group->set_group_label(box.label);
    Annotation* annotation = group->add_annotation();
    annotation->set_instance_id(instance++);
    annotation->mutable_bbox()->set_xmin(box.xmin);
    annotation->mutable_bbox()->set_ymin(box.ymin);
    annotation->mutable_bbox()->set_xmax(box.xmax);
    annotation->mutable_bbox()->set_ymax(box.ymax);
    annotation->mutable_bbox()->set_difficult(box.label == 2);
  }
  return record;
}

inline AnnotatedDatum WithoutImage() {
  AnnotatedDatum record = Annotated(Flat(4, 8, 7), {{1, 0, 0, 1, 1}});
  record.mutable_datum()->set_data("no image");
  return record;
}

// Under the keys key0, key1, ...
inline std::string WriteAnnotated(const test::TempDir& temp, const std::string& name,
                                  const std::vector<AnnotatedDatum>& records,
                                  DataParameter::DB backend = DataParameter::LMDB) {
  const auto writer = CreateRecords(temp.File(name), backend);
  for (size_t i = 0; i < records.size(); ++i) {
    writer->Put(StrCat("key", i), records[i].SerializeAsString());
  }
  writer->Close();
  return temp.File(name);
}

// Record n, with the key 000000 + n, is an image of 5 x 6 with first pixel n and n % 4 boxes of
// label n; bad records hold no image.
inline std::string WriteNumbered(const test::TempDir& temp, DataParameter::DB backend, int records,
                                 const std::vector<int>& bad = {}) {
  const std::string path = temp.File(StrCat("boxes", DataParameter::DB_Name(backend)));
  const auto writer = CreateRecords(path, backend);
  for (int n = 0; n < records; ++n) {
    std::vector<TestBox> boxes;
    for (int i = 0; i < n % 4; ++i) {
      boxes.push_back({n, 0.25f * static_cast<float>(i), 0, 1, 0.5f});
    }
    const bool is_bad = std::ranges::find(bad, n) != bad.end();
    const AnnotatedDatum record = is_bad ? WithoutImage() : Annotated(Pattern(5, 6, 3, n), boxes);
    writer->Put(NumberedKey(n), record.SerializeAsString());
  }
  writer->Close();
  return path;
}

}  // namespace crema::testing
