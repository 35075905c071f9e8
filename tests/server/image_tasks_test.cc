// POST /v1/detect and /v1/segment, and uploads by forms.
#include "server/http/image_tasks.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <tuple>

#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "data/image/image.h"
#include "inference/cascade.h"
#include "inference/model.h"
#include "inference/region_head.h"
#include "server/http/multipart.h"
#include "server/running_server.h"
#include "server/security/tokens.h"
#include "support/cascade_files.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/region_net.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

// The means of blue, green and red are the scores of the classes 0, 1 and 2 of one prior, the
// middle of the image.
constexpr const char* kDetector = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "scores" type: "Flatten" bottom: "mean" top: "scores" }
layer { name: "four" type: "Concat" bottom: "scores" bottom: "scores" top: "six" }
layer { name: "cut" type: "Slice" bottom: "six" top: "a" top: "b" slice_param { slice_point: 4 } }
layer { name: "boxes" type: "Power" bottom: "a" top: "boxes" power_param { scale: 0 } }
layer { name: "none" type: "Silence" bottom: "b" }
layer { name: "priors" type: "PriorBox" bottom: "mean" bottom: "data" top: "priors" prior_box_param { width: 4 height: 4 } }
layer { name: "found" type: "DetectionOutput" bottom: "boxes" bottom: "scores" bottom: "priors" top: "found"
        detection_output_param { num_classes: 3 confidence_threshold: 0.25 } }
)";

// Blue, green and red are the scores of three classes.
constexpr const char* kSegmenter = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "scores" type: "Power" bottom: "data" top: "scores" }
)";

std::shared_ptr<const server::Executable> Loaded(const std::string& net, const ModelCard& card) {
  return server::ToExecutable(
      Model::Make(ParseNet(net, "net.prototxt"), {}, card, {}, TestRegistry(), NullSink()));
}

struct ServedNet {
  explicit ServedNet(const std::string& net, const ModelCard& card = {},
                     const server::ServerOptions& options = TestOptions())
      : server(options, NullSink()) {
    server.ServeModel("m", Loaded(net, card), {});
  }
  SocketAnswer Post(const std::string& path, const std::string& body,
                    const std::string& fields = "") {
    return test::Post(server.http_port(), path, body, fields);
  }

  server::Server server;
};

ModelCard DetectorCard() {
  ModelCard card;
  card.labels = {"nothing", "leaf", "apple"};
  card.preprocessing.scale = 1.0F / 255;
  return card;
}

// A picture of height x width whose left half has one color, and whose right half has another.
std::string Halves(int height, int width, std::string_view left, std::string_view right) {
  std::string file = StrCat("P6\n", width, " ", height, "\n255\n");
  for (int i = 0; i < height * width; ++i) file += i % width < width / 2 ? left : right;
  return file;
}
const std::string kRed = {'\xff', '\0', '\0'};
const std::string kGreen = {'\0', '\xff', '\0'};

std::string Form(std::string_view file, std::string_view head =
                                            "Content-Disposition: form-data; name=\"file\"; "
                                            "filename=\"x.ppm\"\r\nContent-Type: image/x-ppm\r\n") {
  return StrCat("--frontier\r\n", head, "\r\n", file, "\r\n--frontier--\r\n");
}
constexpr const char* kFormType = "Content-Type: multipart/form-data; boundary=frontier\r\n";

class ImageTasks : public testing::Test {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
  }
};

TEST_F(ImageTasks, BoxesAreInPixelsOfTheSentImage) {
  ServedNet served(kDetector, DetectorCard());
  const std::string head = R"({"model":"m","version":"1","width":16,"height":8,"detections":[)";
  const std::string apple = R"({"index":2,"score":1,"label":"apple","box":[4,2,12,6]})";
  const std::string red = Halves(8, 16, kRed, kRed);
  EXPECT_EQ(served.Post("/v1/detect?model=m", red).body, StrCat(head, apple, "]}"));
  EXPECT_EQ(served.Post("/v1/detect", red).body, StrCat(head, apple, "]}")) << "the only model";
  const std::string half = Halves(8, 16, kRed, kGreen);
  EXPECT_EQ(served.Post("/v1/detect", half).body, StrCat(head, "]}"));
  const std::string low = served.Post("/v1/detect?confidence=0.4", half).body;
  EXPECT_TRUE(Contains(low, R"("label":"leaf")") && Contains(low, R"("label":"apple")")) << low;
}

TEST_F(ImageTasks, ADetectorOfRegionsTakesTheSizeOfEachImage) {
  NetFile net = ParseNet(kRegionNet, "net.prototxt");
  ModelCard card;
  PrepareRegionNet(&net, &card);
  card.preprocessing.resize_height = 32;
  card.preprocessing.resize_width = 48;
  server::Server server(TestOptions(), NullSink());
  server.ServeModel(
      "m", server::ToExecutable(Model::Make(net, {}, card, {}, TestRegistry(), NullSink())), {});
  const auto post = [&](const std::string& path, const std::string& body) {
    return Post(server.http_port(), path, body).body;
  };
  const std::string found = post("/v1/detect", PictureOfALamp());
  EXPECT_TRUE(Contains(found, R"("width":24,"height":16,"detections":[{"index":1,"score":0.99)"))
      << found;
  EXPECT_TRUE(Contains(found, R"("box":[4.5,0,13.5,9]}]})")) << found;
  EXPECT_TRUE(Contains(post("/v1/detect", "P5\n6 9\n255\n" + std::string(54, '\0')),
                       R"("width":6,"height":9,"detections":[]})"));
  const std::string models = Get(server.http_port(), "/v1/models").body;
  EXPECT_TRUE(Contains(models, R"({"name":"data","datatype":"FP32","shape":[1,1,-1,-1]})"))
      << models;
  EXPECT_TRUE(Contains(models, R"("image":{"channels":1,"height":-1,"width":-1,"colors":"gray",)"
                               R"("fit":"reshape"})"))
      << models;
  // Tensors of any size, but no encoded images without their sizes.
  std::string zeros = "0";
  for (int i = 1; i < 16 * 32; ++i) zeros += ",0";
  const auto infer = [&](const std::string& data) {
    return post("/v2/models/m/infer",
                StrCat(R"({"inputs":[)", data, R"(,{"name":"im_info","datatype":"FP32",)",
                       R"("shape":[1,3],"data":[16,32,1]}],"outputs":[{"name":"rois_output"}]})"));
  };
  const std::string rois = infer(
      StrCat(R"({"name":"data","datatype":"FP32","shape":[1,1,16,32],"data":[)", zeros, "]}"));
  EXPECT_TRUE(Contains(rois, R"("shape":[2,5])")) << rois;
  const std::string encoded =
      infer(R"({"name":"data","datatype":"BYTES","shape":[1],"data":["eA=="]})");
  EXPECT_TRUE(Contains(encoded, "takes no encoded images (BYTES)")) << encoded;
}

// The means of the channels are the scores; crops of 4 x 4 of 4 x 8 are green, red or both.
constexpr const char* kMeans = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "square" type: "Power" bottom: "mean" top: "square" power_param { power: 2 } }
layer { name: "scores" type: "Flatten" bottom: "square" top: "scores" }
)";

ModelCard TenCropsCard() {
  ModelCard card{.name = {}, .task = "classify", .preprocessing = {}, .labels = {}};
  card.preprocessing.scale = 1.0F / 255;
  card.preprocessing.fit = ImageFit::kCrop;
  card.preprocessing.short_side = 4;
  card.preprocessing.ten_crops = true;
  return card;
}

TEST_F(ImageTasks, TenCropsAreOneRequest) {
  server::BatcherOptions batching;
  batching.max_batch = 4;
  server::Server server(TestOptions(), NullSink());
  server.ServeModel("m", Loaded(kMeans, TenCropsCard()), batching);
  const auto ask = [&](const std::string& picture) {
    return Post(server.http_port(), "/v1/classify?k=2", picture).body;
  };
  // Four crops of each color, and two of both: (4 + 2 / 4) / 10.
  EXPECT_EQ(ask(Halves(4, 8, kGreen, kRed)),
            R"({"model":"m","version":"1","predictions":[{"index":1,"score":0.45},)"
            R"({"index":2,"score":0.45}]})");
  EXPECT_TRUE(Contains(ask("no picture"), "cannot decode the request body as an image"));
}

TEST_F(ImageTasks, TenCropsThatCannotBeComputedAreExplained) {
  const auto ask = [](const std::string& task, const std::string& net, int short_side) {
    ModelCard card = TenCropsCard();
    card.task = task;
    card.preprocessing.short_side = short_side;
    return ServedNet(net, card).Post(StrCat("/v1/", task, "?model=m"), "x").body;
  };
  const std::string detects = ask("detect", kDetector, 8);
  EXPECT_TRUE(Contains(detects, "cannot answer this: ten crops (ten_crops) are for models that"))
      << detects;
  const std::string mixed = StrCat(kMeans, R"(
layer { name: "all" type: "Softmax" bottom: "scores" top: "all" softmax_param { axis: 0 } })");
  const std::string together = ask("classify", mixed, 4);
  EXPECT_TRUE(Contains(together, "the samples of this net cannot be taken apart")) << together;
}

class ServedCascade : public ImageTasks {
 protected:
  void SetUp() override {
    ImageTasks::SetUp();
    if (IsSkipped()) return;
    WriteCascade(temp_.path());
    server.ServeModel("faces",
                      server::ToExecutable(
                          std::make_shared<const Cascade>(temp_.File("cascade.txt"), TestRegistry(),
                                                          CascadeOptions{}, NullSink()),
                          {"background", "face"}),
                      {});
  }
  SocketAnswer Ask(const std::string& path, const std::string& body) {
    return Post(server.http_port(), path, body);
  }

  TempDir temp_;
  server::Server server{TestOptions(), NullSink()};
};

TEST_F(ServedCascade, Detects) {
  const std::string head =
      R"({"model":"faces","version":"1","width":36,"height":30,"detections":[)";
  const std::string all = Ask("/v1/detect", SquarePicture()).body;
  EXPECT_TRUE(all.starts_with(head + R"({"index":1,"score":0.96)")) << all;
  EXPECT_TRUE(all.ends_with(R"(,"label":"face","box":[6,5,23,22],)"
                            R"("keypoints":[[14,10],[14,10],[14,10],[14,10],[14,10]]}]})"))
      << all;
  EXPECT_EQ(Ask("/v1/detect?model=faces&confidence=0.98", SquarePicture()).body, head + "]}");
  EXPECT_EQ(Ask("/v1/detect", Halves(30, 36, kRed, kRed)).body, head + "]}") << "nothing is there";
  EXPECT_EQ(Ask("/v1/detect", Halves(3, 4, kRed, kRed)).body,
            R"({"model":"faces","version":"1","width":4,"height":3,"detections":[]})")
      << "smaller than a window";
  const SocketAnswer none = Ask("/v1/detect", "no picture");
  EXPECT_EQ(none.status, 400);
  EXPECT_TRUE(Contains(none.body, "cannot decode the request body as an image")) << none.body;
  EXPECT_TRUE(Contains(Ask("/v1/detect?confidence=0.5", SquarePicture()).body,
                       "confidence is 0.5, but the model finds no boxes of scores below 0.9"));
  EXPECT_TRUE(
      Contains(Ask("/v1/classify?model=faces", SquarePicture()).body, "use POST /v1/detect"));
}

TEST_F(ServedCascade, IsListedAsWhatItIs) {
  const std::string listed = Get(server.http_port(), "/v1/models").body;
  EXPECT_TRUE(Contains(listed, R"("task":"detect","inputs":[{"name":"image","datatype":"UINT8",)"
                               R"("shape":[1,3,-1,-1]}],"outputs":[{"name":"boxes",)"
                               R"("datatype":"FP32","shape":[-1,15]}])"))
      << listed;
  EXPECT_TRUE(Contains(listed, R"("confidence":0.9)")) << listed;
  EXPECT_TRUE(Contains(ReadyLine(*server.service().Find("faces", 0)),
                       "is ready: detect; input image [1,3,-1,-1], BGR"));
}

TEST_F(ServedCascade, TakesPixelsAndEncodedImagesByTheProtocol) {
  const auto infer = [&](const std::string& type, const std::string& shape,
                         const std::string& data) {
    return Ask("/v2/models/faces/infer",
               StrCat(R"({"inputs":[{"name":"image","datatype":")", type, R"(","shape":)", shape,
                      R"(,"data":[)", data, "]}]}"));
  };
  const std::string encoded =
      infer("BYTES", "[1]", StrCat('"', server::Base64(SquarePicture()), '"')).body;
  EXPECT_TRUE(Contains(encoded, R"("shape":[1,15],"data":[0.96)")) << encoded;
  std::string pixels;
  for (int i = 0; i < 3 * 30 * 36; ++i) {
    const int x = i % 36, y = i / 36 % 30;
    pixels += StrCat(i > 0 ? "," : "", x >= 8 && x < 20 && y >= 4 && y < 16 ? 255 : 0);
  }
  for (const char* type : {"UINT8", "FP32"}) {
    EXPECT_EQ(infer(type, "[1,3,30,36]", pixels).body, encoded) << type;
  }
  EXPECT_TRUE(Contains(infer("FP32", "[1,3,1,1]", "1,2,2.5").body,
                       "an element of 'image' is 2.5, but the model takes UINT8"));
  EXPECT_TRUE(Contains(infer("UINT8", "[1,3,1,1]", "1,2,3").body, R"("shape":[0,15],"data":[])"));
  EXPECT_TRUE(Contains(infer("BYTES", "[1]", "\"AAAA\"").body, "cannot be decoded as an image"));
  EXPECT_TRUE(Contains(infer("BYTES", "[2]", "\"AAAA\",\"AAAA\"").body, "may have 1 samples"));
}

TEST_F(ServedCascade, RefusesImagesOfTooManyPixels) {
  server::InferRequest request;
  server::InputTensor input;
  server::RequestLimits limits;
  limits.elements = 36 * 30;
  server::SetPixelsFromFile(SquarePicture(), "no image", limits, &input, &request);
  EXPECT_EQ(input.shape, (Shape{1, 3, 30, 36}));
  --limits.elements;
  EXPECT_EQ(ErrorOf([&] {
              server::SetPixelsFromFile(SquarePicture(), "no image", limits, &input, &request);
            }),
            "an image may have 1079 pixels for a cascade");
}

TEST_F(ServedCascade, EndsOnceItsClientHasLeft) {
  const auto executable = server::ToExecutable(
      std::make_shared<const Cascade>(temp_.File("cascade.txt"), TestRegistry(), CascadeOptions{},
                                      NullSink()),
      {});
  const std::vector<uint8_t> pixels(3 * 24 * 24, 255);
  const NamedTensor input{"image", {pixels.data(), Shape{1, 3, 24, 24}, DType::kU8}};
  const auto executor = executable->MakeExecutor();
  EXPECT_EQ(ErrorOf([&] {
              executor->RunUnless([] { return true; }, {&input, 1});
            }),
            "the detection was given up");
  executor->RunUnless([] { return false; }, {&input, 1});
  EXPECT_GT(executor->Output("boxes").shape()[0], 0);
}

TEST_F(ServedCascade, ItsNetsAreBesideItsFileInARepository) {
  const auto open = [&](const std::string& text) {
    temp_.Write("cascade.txt", text);
    return ErrorOf([&] {
      Cascade(temp_.File("cascade.txt"), TestRegistry(), {.folder = temp_.path()}, NullSink());
    });
  };
  EXPECT_EQ(open(kCascade), "");
  std::string other = kCascade;
  other.replace(other.find("first.prototxt"), 14, "../first.prototxt");
  EXPECT_TRUE(Contains(open(other), "is not the name of a file beside that of the cascade"));
  other = kCascade;
  other.replace(other.find("second.prototxt"), 15, "missing.prototxt");
  EXPECT_TRUE(Contains(open(other), "missing.prototxt: there is no such file"));
  other = kCascade;
  other.replace(other.find("first.prototxt"), 14, "first.onnx");
  EXPECT_TRUE(Contains(open(other), "an .onnx file cannot be read here"));
}

TEST_F(ImageTasks, RawOutputsOfAHeadAreDecoded) {
  const auto begin = [](int side) {
    return StrCat(
        "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: ",
        side, " dim: ", side, " } } }\n");
  };
  const auto constant = [](const char* name, int rows, int columns, const char* value) {
    return StrCat("layer { name: '", name, "_all' type: 'InnerProduct' bottom: 'data' top: '", name,
                  "_all' inner_product_param { num_output: ", rows * columns,
                  " bias_filler { type: 'constant' value: ", value, " } } }\n", "layer { name: '",
                  name, "' type: 'Reshape' bottom: '", name, "_all' top: '", name,
                  "' reshape_param { shape { dim: 0 dim: ", rows, " dim: ", columns, " } } }\n");
  };
  const std::string picture = Halves(8, 16, kRed, kRed);
  ServedNet points(StrCat(begin(8), constant("rows", 300, 9, "2")));
  const SocketAnswer found = points.Post("/v1/detect", picture);
  EXPECT_TRUE(
      Contains(found.body, R"([{"index":2,"score":2,"box":[4,2,4,2],"keypoints":[[4,2]]},{)"))
      << found.body.substr(0, 300);
  // Two outputs for the 104 priors of the Ultra-Light detector.
  ServedNet faces(
      StrCat(begin(40), constant("scores", 104, 2, "0.75"), constant("boxes", 104, 4, "0.5")));
  const SocketAnswer face = faces.Post("/v1/detect?confidence=0.7", picture);
  EXPECT_TRUE(Contains(face.body, R"([{"index":1,"score":0.75,"box":[8,4,8,4]},{)"))
      << face.body.substr(0, 300);
}

TEST_F(ImageTasks, ConfidencesThatTheModelCannotAnswerAreRefused) {
  ServedNet served(kDetector, DetectorCard());
  const std::string red = Halves(8, 16, kRed, kRed);
  const SocketAnswer low = served.Post("/v1/detect?confidence=0.2", red);
  EXPECT_EQ(low.status, 400);
  EXPECT_TRUE(Contains(low.body, "finds no boxes of scores below 0.25")) << low.body;
  for (const char* bad : {"-0.1", "1.1", "x", "nan", "0.5x"}) {
    EXPECT_EQ(served.Post(StrCat("/v1/detect?confidence=", bad), red).status, 400) << bad;
  }
}

TEST_F(ImageTasks, LabelMapsHaveTheSizeOfTheSentImage) {
  ModelCard card;
  card.labels = {"sky", "grass", "roof"};
  ServedNet served(kSegmenter, card);
  const std::string picture = Halves(8, 16, kRed, kGreen);
  const SocketAnswer map = served.Post("/v1/segment?model=m", picture, "Accept: image/png\r\n");
  EXPECT_EQ(map.fields.at("content-type"), "image/png");
  Image image;
  DecodeImage(map.body, ColorMode::kColor, "map", &image);
  ASSERT_EQ(image.height, 8);
  ASSERT_EQ(image.width, 16);
  const std::array<uint8_t, 3> red = ClassColor(2);
  EXPECT_EQ(image.pixels[2 * 128], red[0]);
  EXPECT_EQ(image.pixels[128], red[1]);
  const SocketAnswer answer = served.Post("/v1/segment", picture);
  EXPECT_EQ(answer.body, StrCat(R"({"model":"m","version":"1","width":16,"height":8,"classes":[)",
                                R"({"index":1,"share":0.5,"label":"grass"},)",
                                R"({"index":2,"share":0.5,"label":"roof"}],"mask":")",
                                server::Base64(map.body), "\"}"));
}

TEST_F(ImageTasks, BoxesInALetterboxAreInPixelsOfTheSentImage) {
  ModelCard card = DetectorCard();
  card.preprocessing.fit = ImageFit::kLetterbox;
  card.preprocessing.pad = 255;  // the mean of red remains 1
  ServedNet served(kDetector, card);
  // 16x8 lies in the rows 2 to 5 of the input; the box is its middle, 2 to 6 in both directions.
  const SocketAnswer answer = served.Post("/v1/detect?confidence=0.9", Halves(8, 16, kRed, kRed));
  EXPECT_TRUE(Contains(answer.body, R"("label":"apple","box":[4,0,12,8])")) << answer.body;
}

TEST_F(ImageTasks, LabelMapsLeaveTheBarsOut) {
  ModelCard card;
  card.preprocessing.fit = ImageFit::kLetterbox;
  card.preprocessing.pad = 0;  // all scores are equal: class 0
  ServedNet served(kSegmenter, card);
  const SocketAnswer answer = served.Post("/v1/segment", Halves(8, 16, kRed, kRed));
  EXPECT_TRUE(Contains(answer.body, R"("classes":[{"index":2,"share":1}])")) << answer.body;
  EXPECT_TRUE(Contains(answer.body, R"("width":16,"height":8)")) << answer.body;
}

TEST_F(ImageTasks, ASegmenterThatCropsIsRefused) {
  ModelCard card;
  card.preprocessing.fit = ImageFit::kCrop;
  ServedNet served(kSegmenter, card);
  const SocketAnswer answer = served.Post("/v1/segment?model=m", Halves(8, 16, kRed, kRed));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(Contains(answer.body, "cannot answer this")) << answer.body;
  EXPECT_TRUE(Contains(answer.body, "crop")) << answer.body;
}

TEST_F(ImageTasks, AnImageTooNarrowForTheCropIsExplained) {
  ModelCard card = DetectorCard();
  card.preprocessing.fit = ImageFit::kCrop;
  card.preprocessing.short_side = 256;
  ServedNet served(kDetector, card);
  const SocketAnswer answer = served.Post("/v1/detect", Halves(1, 4096, kRed, kRed));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(Contains(answer.body, "4096x1 would be resized")) << answer.body;
  EXPECT_TRUE(Contains(answer.body, "too narrow")) << answer.body;
}

TEST_F(ImageTasks, OneOfSeveralModelsHasToBeChosen) {
  const TempDir folder;
  for (const char* model : {"a", "b"}) {
    std::filesystem::create_directories(folder.File(StrCat(model, "/1")));
    folder.Write(StrCat(model, "/1/model.crema"), "file");
  }
  server::Server server(TestOptions(), NullSink());
  server::RepositoryOptions repository;
  repository.path = folder.path();
  repository.poll = repository.settle = std::chrono::milliseconds(0);
  server.ServeRepository(repository, [](const std::string&, const server::VersionFiles&) {
    return Loaded(kDetector, DetectorCard());
  });
  const std::string red = Halves(8, 16, kRed, kRed);
  const SocketAnswer both = Post(server.http_port(), "/v1/detect", red);
  EXPECT_EQ(both.status, 400);
  EXPECT_TRUE(Contains(both.body, "choose one of the models with ?model=NAME: a, b")) << both.body;
  EXPECT_EQ(Post(server.http_port(), "/v1/detect?model=b", red).status, 200);
}

TEST_F(ImageTasks, AModelOfAnotherTaskNamesItsPath) {
  ServedNet detector(kDetector, DetectorCard());
  const SocketAnswer answer = detector.Post("/v1/classify?model=m", "");
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(Contains(answer.body, "detects objects: use POST /v1/detect?model=m")) << answer.body;
  EXPECT_EQ(detector.Post("/v1/segment", "").status, 404);
  EXPECT_EQ(detector.Post("/v1/detect?model=n", "").status, 404);
  const RunningServer tensors;
  const SocketAnswer none = Post(tensors.port(), "/v1/detect?model=m", "");
  EXPECT_EQ(none.status, 400);
  EXPECT_TRUE(Contains(none.body, "use POST /v2/models/m/infer")) << none.body;
}

TEST_F(ImageTasks, ATaskThatDoesNotFitTheNetIsExplained) {
  ModelCard card = DetectorCard();
  card.task = "detect";
  ServedNet served(kSegmenter, card);
  const SocketAnswer answer = served.Post("/v1/detect?model=m", "");
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(Contains(answer.body, "no layer of type DetectionOutput")) << answer.body;
}

TEST_F(ImageTasks, ModelsAreListedWithWhatTheyTake) {
  ServedNet served(kDetector, DetectorCard());
  const std::string models = Get(served.server.http_port(), "/v1/models").body;
  for (const char* part :
       {R"("name":"m","version":"1","task":"detect")", R"("shape":[1,3,8,8])",
        R"("image":{"channels":3,"height":8,"width":8,"colors":"BGR","fit":"stretch"})",
        R"("confidence":0.6)"}) {
    EXPECT_TRUE(Contains(models, part)) << part << "\n" << models;
  }
  EXPECT_TRUE(Contains(Get(RunningServer().port(), "/v1/models").body, R"("task":null)"));
}

TEST_F(ImageTasks, FormsAreReadForEachTask) {
  ServedNet detector(kDetector, DetectorCard());
  const std::string red = Halves(8, 16, kRed, kRed);
  EXPECT_EQ(detector.Post("/v1/detect", Form(red), kFormType).body,
            detector.Post("/v1/detect", red).body);
  ServedNet segmenter(kSegmenter);
  EXPECT_EQ(segmenter.Post("/v1/segment", Form(red), kFormType).body,
            segmenter.Post("/v1/segment", red).body);
  FakeModelOptions fake;
  fake.picture = true;
  const RunningServer classifier(TestOptions(), fake);
  EXPECT_EQ(Post(classifier.port(), "/v1/classify", Form(red), kFormType).body,
            Post(classifier.port(), "/v1/classify", red).body);
  const SocketAnswer bad = detector.Post("/v1/detect", Form("no image"), kFormType);
  EXPECT_EQ(bad.status, 400);
  EXPECT_TRUE(Contains(bad.body, "cannot decode the request body as an image")) << bad.body;
}

TEST_F(ImageTasks, WrongRequestsSayWhatToDo) {
  ServedNet served(kDetector, DetectorCard());
  const std::string red = Halves(8, 16, kRed, kRed);
  EXPECT_EQ(served.Post("/v1/detect?model=m&version=1&confidence=0.5", red).status, 200);
  const std::tuple<const char*, std::string, int, const char*> kWrong[] = {
      {"/v1/detect?top=3", red, 400,
       "unknown parameter 'top'; detect takes model, version, confidence"},
      {"/v1/detect?k=3", red, 400, "unknown parameter 'k'"},
      {"/v1/segment?confidence=1", red, 400, "segment takes model, version"},
      {"/v1/detect?model=m&model=x", red, 400, "parameter 'model' is given twice"},
      {"/v1/detect?model", red, 400, "parameter 'model' has no value: model=VALUE"},
      {"/v1/detect?confidence=high", red, 400, "confidence is 'high'; use 0 to 1"},
      {"/v1/detect?model=mm", red, 404,
       "there is no model 'mm' (did you mean 'm'?); GET /v1/models lists the models"},
      {"/v1/detect", "", 400, "the body is empty; send the file itself"},
      {"/v1/detect", " {\"image\": 1}", 400, "the body is JSON, not an image; send"},
      {"/v1/detect", "https://example.com/x.png", 400, "the body is an address"},
      {"/v1/detect", "iVBORw0KGgoAAAANSUhEUgAA", 400, "the body is Base64 text"},
      {"/v1/predict", red, 404, "; GET /openapi.json lists the paths"},
      {"/v2/models/m/infer", "{\"instances\": [1]}", 400, "the body has the form"},
      {"/v2/models/m/infer",
       "{\"inputs\": [{\"name\": \"data\", \"shape\": [1], \"datatype\": \"float32\", \"data\": "
       "[1]}]}",
       400, "the datatype of input 'data' is 'float32'; write FP32"},
  };
  for (const auto& [path, body, status, message] : kWrong) {
    const SocketAnswer answer = served.Post(path, body);
    EXPECT_EQ(answer.status, status) << path << answer.body;
    std::string text = answer.body;
    std::erase(text, '\\');
    EXPECT_TRUE(Contains(text, message)) << path << " " << answer.body;
  }
}

TEST_F(ImageTasks, TheHeadOfAFormDoesNotCountForTheSizeOfTheImage) {
  const std::string red = Halves(8, 16, kRed, kRed);
  server::ServerOptions options = TestOptions();
  options.http.limits.image_bytes = red.size();
  ServedNet detector(kDetector, DetectorCard(), options);
  EXPECT_EQ(detector.Post("/v1/detect", Form(red), kFormType).status, 200);
  EXPECT_EQ(detector.Post("/v1/detect", Form(red + "x"), kFormType).status, 413);
  EXPECT_EQ(detector.Post("/v1/detect", red + "x").status, 413);
}

TEST(ReadyLine, ShowsTextsOfAFileWithoutControlCharacters) {
  class Hostile final : public server::Executable {
   public:
    Hostile() : description_(model_.description()) {
      description_.task = "\x1b[2J";
      description_.task_problem = "a\nb";
      description_.inputs[0].name = "x\r";
    }
    const server::ModelDescription& description() const override { return description_; }
    std::unique_ptr<server::Executor> MakeExecutor() const override {
      return model_.MakeExecutor();
    }

   private:
    FakeModel model_;
    server::ModelDescription description_;
  };
  server::ServerMetrics metrics;
  const server::ModelVersion version("m", 1, std::make_shared<const Hostile>(), {},
                                     metrics.ForModel("m"));
  EXPECT_EQ(server::ReadyLine(version),
            "model m: version 1 is ready: \\x1b[2J (a\\x0ab); input x\\x0d [-1,4]");
}

TEST(Multipart, OtherBodiesAreTheFile) {
  EXPECT_EQ(server::FileOfBody("", "abc"), "abc");
  EXPECT_EQ(server::FileOfBody("image/png", "--x\r\n"), "--x\r\n");
  EXPECT_EQ(server::FileOfBody("multipart/mixed; boundary=x", "abc"), "abc");
}

TEST(Multipart, FilesAreTakenAsTheyAre) {
  const std::string type = "Multipart/Form-Data ; charset=x; boundary=\"frontier\"";
  EXPECT_EQ(server::FileOfBody(type, Form("abc")), "abc");
  const std::string odd = std::string("\r\n--frontie\r\n\r\n--\r\n\0--x", 23);
  EXPECT_EQ(server::FileOfBody(type, Form(odd)), odd);
  std::string no_last_line = Form("abc");
  no_last_line.resize(no_last_line.size() - 2);
  EXPECT_EQ(server::FileOfBody(type, no_last_line), "abc");
  EXPECT_EQ(server::FileOfBody(
                type, Form("abc",
                           "content-disposition:form-data; filename*=UTF-8''%e2; name=f\r\n"
                           "Content-Transfer-Encoding: binary\r\n")),
            "abc");
  EXPECT_EQ(
      server::FileOfBody(
          type, Form("abc", "Content-Disposition: form-data; name=\"a\\\";b\"; filename=x\r\n")),
      "abc");
}

TEST(Multipart, MalformedFormsAreRefusedWithTheReason) {
  const std::string type = "multipart/form-data; boundary=frontier";
  const std::string file = "Content-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n";
  const std::string field = "Content-Disposition: form-data; name=\"model\"\r\n";
  const std::string part = StrCat("--frontier\r\n", file, "\r\nabc\r\n");
  const std::tuple<std::string, std::string, const char*> kBad[] = {
      {"multipart/form-data", Form("abc"), "no boundary"},
      {"multipart/form-data; boundary=", Form("abc"), "no valid boundary"},
      {"multipart/form-data; boundary=a b", Form("abc"), "no valid boundary"},
      {"multipart/form-data; boundary=" + std::string(71, 'x'), "", "no valid boundary"},
      {"multipart/form-data; boundary=x; boundary=y", "", "two boundaries"},
      {"multipart/form-data; boundary=\"x", "", "quotes do not end"},
      {"multipart/form-data; boundary=other", Form("abc"), "does not begin with the boundary"},
      {type, "", "does not begin with the boundary"},
      {type, "preamble\r\n" + Form("abc"), "does not begin with the boundary"},
      {type, "--frontier--\r\n", "no file"},
      {type, "--frontierx\r\n" + file + "\r\nabc\r\n--frontierx--\r\n", "text after its first"},
      {type, Form("abc", ""), "without Content-Disposition"},
      {type, Form("abc", "Content-Type: image/png\r\n"), "without Content-Disposition"},
      {type, Form("abc", file + file), "two Content-Dispositions"},
      {type, Form("abc", "Content-Disposition: attachment; filename=x\r\n"), "not form-data"},
      {type, Form("abc", "Content-Disposition form-data\r\n"), "without a colon"},
      {type, Form("abc", "Content-Disposition: form-data; name\r\n"), "without '='"},
      {type, Form("abc", "Content-Disposition: form-data; name=\"f\"x; filename=y\r\n"),
       "text between its parameters"},
      {type, Form("abc", file + "Content-Transfer-Encoding: base64\r\n"), "an encoded file"},
      {type, Form("m", field), "no file: send the image as -F file=@x.png"},
      {type, Form("abc", file + std::string(2000, 'x')), "does not end, or is too long"},
      {type,
       Form("abc",
            [&] {
              std::string many = file;
              for (int i = 0; i < 17; ++i) many += "A: b\r\n";
              return many;
            }()),
       "too many header fields"},
      {type, part + part + "--frontier--\r\n", "several parts"},
      {type, part, "ends before the boundary"},
      {type, part + "--frontier", "ends within the boundary after the file"},
      {type, part + "--frontier\r\n", "several parts"},
      {type, part + "--frontier-", "does not end with its boundary"},
      {type, Form("abc") + "more", "does not end with its boundary"},
      {type, Form(""), "an empty file"}};
  for (const auto& [content_type, body, reason] : kBad) {
    try {
      server::FileOfBody(content_type, body);
      ADD_FAILURE() << reason << " is accepted";
    } catch (const server::RequestError& error) {
      EXPECT_EQ(error.cause(), server::Cause::kBadRequest);
      EXPECT_TRUE(Contains(error.message(), reason)) << error.message() << "\n" << reason;
    }
  }
}

}  // namespace
}  // namespace crema::test
