// Whole files of data sets.
#include "core/strings.h"
#include "core/tensor.h"
#include "data/image/image.h"
#include "data/records/record_db.h"
#include "support/fuzz_corpus.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_JPEG
#include "data/jpeg_files.h"
#endif
#ifdef CREMA_HAVE_HDF5
#include "crema.pb.h"
#include "data/hdf5/hdf5_appender.h"
#endif

namespace crema::test {
namespace {

#ifdef CREMA_HAVE_OPENCV
Image SmallImage(int channels) {
  Image image{.channels = channels, .height = 9, .width = 11, .pixels = {}};
  for (int i = 0; i < channels * 99; ++i) image.pixels.push_back(static_cast<uint8_t>(i * 7));
  return image;
}

void AddImages(std::vector<CorpusFile>* files) {
  for (const char* type : {"png", "bmp", "ppm", "webp", "tiff"}) {
    files->push_back({StrCat("a ", type), "image", EncodeImage(SmallImage(3), type, 0), ""});
  }
  files->push_back({"a gray png", "image", EncodeImage(SmallImage(1), "png", 0), ""});
}

void AddAnnotated(std::vector<CorpusFile>* files) {
  AnnotatedDatum record;
  record.set_type(AnnotatedDatum::BBOX);
  record.mutable_datum()->set_encoded(true);
  record.mutable_datum()->set_data(EncodeImage(SmallImage(3), "ppm", 0));
  for (const int label : {1, 2}) {
    AnnotationGroup* group = record.add_annotation_group();
    group->set_group_label(label);
    NormalizedBBox* box = group->add_annotation()->mutable_bbox();
    box->set_xmin(0.1f);
    box->set_ymin(0.2f);
    box->set_xmax(0.6f);
    box->set_ymax(0.3f * static_cast<float>(label));
  }
  files->push_back({"annotated image", "annotated", record.SerializeAsString(), ""});
  Datum& datum = *record.mutable_datum();
  datum.Clear();
  datum.set_channels(3);
  datum.set_height(2);
  datum.set_width(4);
  datum.set_data(std::string(24, '\x42'));
  files->push_back({"annotated pixels", "annotated", record.SerializeAsString(), ""});
}
#endif

void AddTar(std::vector<CorpusFile>* files) {
  const TempDir folder;
  const auto writer = CreateRecords(folder.File("set.tar"), DataParameter::TAR);
  for (const char* key : {"a/1", "a/2"}) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_label(3);
    datum.set_data("P5\n3 2\n255\n" + std::string("\x01\x02\x03\x04\x05\x06", 6));
    writer->Put(std::string(key) + std::string(*key == 'a' ? 60 : 0, 'n') + std::string(60, 'x'),
                datum.SerializeAsString());
  }
  writer->Close();
  files->push_back({"tar shard", "tar", folder.Read("set.tar"), ""});
}

void AddLmdb(std::vector<CorpusFile>* files) {
  const TempDir folder;
  const auto writer = CreateRecords(folder.File("set"), DataParameter::LMDB);
  for (char key = 'a'; key <= 'z'; ++key) {
    writer->Put(std::string(1, key), std::string(key == 'k' ? 5000 : 200, key));
  }
  writer->Close();
  files->push_back({"lmdb", "lmdb", folder.Read("set/data.mdb"), ""});
}

#ifdef CREMA_HAVE_HDF5
void AddRows(std::vector<CorpusFile>* files) {
  const TempDir folder;
  {
    Tensor rows(Shape{7, 2, 3}, DType::kF32);
    for (float& value : rows.view().span<float>()) value = 0.5f;
    Hdf5Appender appender(folder.File("rows.h5"));
    appender.Append("data", rows.view());
    appender.Append("data", rows.view());
  }
  files->push_back({"HDF5 rows", "hdf5rows", folder.Read("rows.h5"), ""});
}
#endif

}  // namespace

void AddWholeData(std::vector<CorpusFile>* files) {
#ifdef CREMA_HAVE_OPENCV
  AddImages(files);
  AddAnnotated(files);
#endif
#ifdef CREMA_HAVE_JPEG
  for (const testing::JpegKind& kind : testing::AllKinds()) {
    files->push_back({"JPEG " + kind.name, "image", testing::MakeJpeg(20, 45, kind), ""});
  }
#endif
  AddTar(files);
  AddLmdb(files);
#ifdef CREMA_HAVE_HDF5
  AddRows(files);
#endif
  const std::string text = "a b.jpg 3\r\n\nc.png -1\n";
  files->push_back({"list", "list", '\x00' + text, ""});
  files->push_back({"list of two labels", "list",
                    "\x04"
                    "a.jpg 0.5 1e3\nb c.png 2 -3\n",
                    ""});
  files->push_back({"CSV list", "list", "\x01path,label\n\"a, \"\"b\"\".jpg\",3\nb.png, 4\n", ""});
  files->push_back({"windows", "windows",
                    "# 0\na b.png\n3\n10\n20\n3\n7 0.9 2 1 5 8\n7 0.5 0 0 19 9\n0 0.1 10 3 12 4\n"
                    "# 1\nb.png\n3\n6\n6\n1\n3 0.2 1 1 4 4\n",
                    ""});
}

}  // namespace crema::test
