// new, for pictures with boxes: VOC, COCO and YOLO.
#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_EXPAT)
#include "tools/job_folder.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

// Pictures of 40x20; each has a dog at 4 5 20 10 and a cat at 10 0 30 20.
class NewDetect : public JobFolder {
 protected:
  void AddPictures(const std::string& folder, int count) {
    for (int i = 0; i < count; ++i) {
      Add(StrCat(folder, "/", i, ".png"), Png(Pattern(20, 40, 3, i)));
    }
  }
  void AddVoc(const std::string& folder, int count) {
    AddPictures(folder + "/JPEGImages", count);
    for (int i = 0; i < count; ++i) {
      Add(StrCat(folder, "/Annotations/", i, ".xml"),
          "<annotation><size><width>40</width><height>20</height></size>"
          "<object><name>dog</name><bndbox><xmin>4</xmin><ymin>5</ymin><xmax>20</xmax>"
          "<ymax>10</ymax></bndbox></object>"
          "<object><name>cat</name><bndbox><xmin>10</xmin><ymin>0</ymin><xmax>30</xmax>"
          "<ymax>20</ymax></bndbox></object></annotation>");
    }
  }
  static std::string Coco(int count, const std::string& more = "") {
    std::string images;
    std::string boxes;
    for (int i = 0; i < count; ++i) {
      images += StrCat(i > 0 ? "," : "", R"({"id": )", i + 7, R"(, "file_name": ")", i,
                       R"(.png", "width": 40, "height": 20, "license": 3})");
      boxes +=
          StrCat(R"({"image_id": )", i + 7,
                 R"(, "category_id": 18, "bbox": [4, 5, 16, 5], "segmentation": [[1, 2]]},)",
                 R"({"image_id": )", i + 7, R"(, "category_id": 3, "bbox": [10, 0, 20, 20]},)");
    }
    boxes.pop_back();
    return StrCat(R"({"info": {"year": 2017}, "images": [)", images, R"(], "annotations": [)",
                  boxes, more, R"(], "categories": [{"id": 18, "name": "dog"}, )",
                  R"({"id": 3, "name": "cat", "supercategory": "animal"}]})");
  }
  void AddYolo(const std::string& folder, int count) {
    AddPictures(folder + "/images", count);
    for (int i = 0; i < count; ++i) {
      Add(StrCat(folder, "/labels/", i, ".txt"),
          "1 0.3 0.375 0.4 0.25\n0 0.25 0 0.75 0 0.75 1 0.25 1\n");
    }
    Add(folder + "/data.yaml", "train: images  # where\nnames:\n  0: cat\n  1: 'dog'\nnc: 2\n");
  }

  // The boxes of a data set: label and corners by record.
  std::string BoxesOf(const std::string& name) const {
    std::string text;
    for (const auto& [key, value] : ReadAll(temp_.File("job/" + name))) {
      AnnotatedDatum record;
      EXPECT_TRUE(record.ParseFromString(value));
      EXPECT_TRUE(record.datum().encoded()) << "the file as it is";
      for (const AnnotationGroup& group : record.annotation_group()) {
        for (const Annotation& one : group.annotation()) {
          const NormalizedBBox& box = one.bbox();
          text += StrCat(group.group_label(), ": ", box.xmin(), " ", box.ymin(), " ", box.xmax(),
                         " ", box.ymax(), "\n");
        }
      }
    }
    return text;
  }
};

constexpr const char* kBoxes = "2: 0.1 0.25 0.5 0.5\n1: 0.25 0 0.75 1\n";

TEST_F(NewDetect, VocCocoAndYoloGiveTheSameBoxes) {
  AddVoc("voc", 8);
  AddPictures("coco/pictures", 8);
  Add("coco/annotations/instances.json", Coco(8));
  AddYolo("yolo", 8);
  for (const char* images : {"voc", "coco", "coco/annotations/instances.json", "yolo",
                             "yolo/images", "yolo/data.yaml"}) {
    const std::string out = Made({StrCat("--images=", images), "--split=0.125"});
    EXPECT_TRUE(Contains(out, "8 pictures of 2 classes in ")) << images << "\n" << out;
    EXPECT_EQ(BoxesOf("test_lmdb"), kBoxes) << images;
    EXPECT_EQ(ReadAll(temp_.File("job/train_lmdb")).size(), 7U);
    EXPECT_EQ(temp_.Read("job/labels.txt"), "background\ncat\ndog\n");
  }
}

TEST_F(NewDetect, ADataYamlNamesTheTestPictures) {
  AddYolo("yolo", 5);
  AddYolo("more", 2);
  Add("yolo/data.yaml", "train: images\nval: [../more/images]\nnames: [cat, dog]\n");
  for (const char* images : {"yolo", "yolo/data.yaml"}) {
    EXPECT_TRUE(Contains(Made({StrCat("--images=", images)}), ": 5 to train, 2 to test."))
        << images;
  }
  EXPECT_TRUE(Contains(Made({"--images=yolo", "--split=0.2"}), ": 4 to train, 1 to test."));
  EXPECT_TRUE(Contains(Made({"--images=more", "--test=yolo"}), ": 2 to train, 2 to test."));
  fs::remove_all(temp_.File("job"));
  ExpectRefused({"--images=yolo", "--test=more"},
                "more/data.yaml: does not say where the pictures are: it has no `val:` or `test:`",
                3);
}

TEST_F(NewDetect, TheNetHasTheClassesAndTheSize) {
  AddVoc("voc", 8);
  Made({"--images=voc", "--size=96", "--nomirror"});
  int heads = 0;
  const NetParameter net = Net();
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "AnnotatedData") {
      EXPECT_EQ(layer.transform_param().resize_param().width(), 96U);
      EXPECT_FALSE(layer.transform_param().mirror());
      EXPECT_EQ(layer.annotated_data_param().label_map_file(), "job/labelmap.prototxt");
    }
    if (layer.name() == "conv4_mbox_conf") {
      EXPECT_EQ(layer.convolution_param().num_output(), 12U);
    }
    if (layer.name() == "conv4_mbox_loc") {
      EXPECT_EQ(layer.convolution_param().num_output(), 16U);
    }
    if (layer.name() == "conv4_mbox_priorbox") {
      EXPECT_FLOAT_EQ(layer.prior_box_param().min_size(0), 16 * 0.6F);
    }
    if (layer.type() == "MultiBoxLoss") heads += layer.multibox_loss_param().num_classes() == 3;
    if (layer.type() == "DetectionOutput") {
      heads += layer.detection_output_param().num_classes() == 3;
    }
    if (layer.type() == "Reshape") heads += layer.reshape_param().shape().dim(2) == 3;
  }
  EXPECT_EQ(heads, 3);
}

TEST_F(NewDetect, DrawnDigitsBecomeADetector) {
  Run("make_digits", {"--task=detect", "--count=24", "--side=96", "digits"});
  Made({"--images=digits", "--size=64", "--epochs=1", "--batch=8"});
  Run("train", {"--solver=job/solver.prototxt", "--threads=1"});
  Run("deploy", {"export", "--run=job/runs/ssd160_run", "-o", "m.crema"});
  const std::string boxes = Run("deploy", {"detect", "--model=m.crema", "--confidence=0.02",
                                           "--json", "digits/JPEGImages/000003.jpg"});
  EXPECT_TRUE(Contains(boxes, "\"detections\": [{\"label\": \"")) << boxes;
}

TEST_F(NewDetect, MistakesInAnnotationsNameTheirPlace) {
  AddVoc("voc", 3);
  fs::remove(temp_.File("voc/JPEGImages/1.png"));
  ExpectRefused({"--images=voc"}, "voc/Annotations/1.xml: has no picture 'voc/JPEGImages/1", 3);
  AddPictures("coco", 2);
  Add("coco/a.json", Coco(2, R"(,{"image_id": 9, "category_id": 3, "bbox": [1, 1, 2, 2]})"));
  ExpectRefused({"--images=coco"}, "a.json: annotation 4 is of image 9 and category 3", 3);
  Add("coco/a.json", Coco(2, R"(,{"image_id": 7, "category_id": 3, "bbox": [50, 1, 2, 2]})"));
  ExpectRefused({"--images=coco"}, "annotation 4: the box 50 1 2 2 (left, top, width, height)", 3);
  Add("coco/a.json", Coco(2, R"(,{"image_id": 7, "category_id": 3, "bbox": [1, 1, 2, 0]})"));
  EXPECT_NE(Made({"--images=coco"})
                .find("1 boxes of no width or height are left out, the first is "
                      "annotation 4 of '0.png'"),
            std::string::npos);
  fs::remove_all(temp_.File("job"));
  Add("coco/a.json", "{\"images\": [");
  ExpectRefused({"--images=coco"}, "a.json: is no annotation file of COCO: ", 3);
  Add("coco/a.json", "{\"images\": []}");
  ExpectRefused({"--images=coco"}, "it has 0 images and 0 categories", 3);
  AddYolo("yolo", 2);
  Add("yolo/labels/1.txt", "\n0 20 10 4 5\n");
  ExpectRefused({"--images=yolo"}, "yolo/labels/1.txt:2:1: the box is outside the picture: numbers",
                3);
  Add("yolo/labels/1.txt", "2 0.5 0.5 0.1 0.1\n");
  ExpectRefused({"--images=yolo"}, "1.txt:1:1: class 2 has no name: the names are cat, dog", 3);
  Add("yolo/labels/1.txt", "1 0.5 0.5 0.1\n");
  ExpectRefused({"--images=yolo"}, "1.txt:1:1: has 4 numbers; a label is `class x y width", 3);
}

TEST_F(NewDetect, RefusesTwoClassesOfOneName) {
  AddYolo("yolo", 2);
  Add("yolo/data.yaml", "names: [person, car, car, dog]\n");
  ExpectRefused({"--images=yolo"}, "two classes of 'yolo' have the name 'car', 1 and 2", 3);
  AddPictures("coco", 2);
  std::string coco = Coco(2);
  coco.replace(coco.find("\"cat\""), 5, "\"dog\"");
  Add("coco/a.json", coco);
  ExpectRefused({"--images=coco"}, "two classes of 'coco' have the name 'dog', 0 and 1", 3);
}

TEST_F(NewDetect, RefusesTwoPicturesOfOneName) {
  AddVoc("voc", 3);
  Add("voc/JPEGImages/1.jpg", "x");
  ExpectRefused({"--images=voc"}, "has two pictures of one name, '1.jpg' and '1.png'", 3);
}

}  // namespace
}  // namespace crema::test
#endif
