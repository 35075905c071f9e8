// deploy: what a trained net is for.
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
<<<<<<< HEAD
#include "deploy/actions.h"
=======
#include "format/file.h"
#include "serving/classifier.h"

DEFINE_string(model, "", "the deploy net, a prototxt that begins with an Input layer");
DEFINE_string(weights, "",
              "its learned blobs: caffemodels, separated by commas; later ones add and override");
DEFINE_string(mean, "",
              "mean to subtract: a binaryproto file, or one number a channel with commas");
DEFINE_string(labels, "", "text file with the name of a class on each line");
DEFINE_int32(top, 5, "how many classes to print, best first");
DEFINE_double(scale, 1, "factor on (pixel - mean)");
DEFINE_bool(invert, false, "take 255 - pixel: dark on light becomes light on dark");
DEFINE_string(list, "", "text file with the path of an image on each line");
DEFINE_bool(json, false, "print a JSON object an image instead of text");
DEFINE_string(output, "", "blob with the scores, for nets with several outputs");
DEFINE_int32(threads, 0, "images worked on at a time; 0: one for each processor");
>>>>>>> w/files

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "deploy classify --model=D --weights=W IMAGE...: prints the best classes of each image.\n"
    "deploy detect --model=D --weights=W [--draw=OUT] IMAGE...: prints the boxes that a net with\n"
    "DetectionOutput finds in each image.\n"
    "IMAGE is a file or a folder. A pixel v becomes ((invert ? 255 - v : v) - mean) * scale.";

<<<<<<< HEAD
=======
std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(ReadFile(path), '\n')) {
    if (!Trim(line).empty()) lines.emplace_back(Trim(line));
  }
  return lines;
}

bool LooksLikeImage(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known :
       {".png", ".jpg", ".jpeg", ".bmp", ".pgm", ".ppm", ".tif", ".tiff", ".webp"}) {
    if (extension == known) return true;
  }
  return false;
}

std::vector<std::string> ImagesOf(const std::vector<std::string>& arguments) {
  std::vector<std::string> images;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      images.push_back(argument);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator entry(argument, error), end; !error && entry != end;
         entry.increment(error)) {
      if (LooksLikeImage(entry->path())) inside.push_back(entry->path().string());
    }
    if (error) Fail(ErrorCode::kIoFailure, StrCat(argument, ": ", error.message()));
    std::sort(inside.begin(), inside.end());
    images.insert(images.end(), inside.begin(), inside.end());
  }
  if (!FLAGS_list.empty()) {
    for (std::string& line : ReadLines(FLAGS_list)) images.push_back(std::move(line));
  }
  if (images.empty()) {
    Fail(ErrorCode::kInvalidArgument, "no images: name files or folders, or give --list");
  }
  return images;
}

std::vector<float> MeanOf(const Classifier& classifier) {
  if (FLAGS_mean.empty()) return {};
  std::error_code error;
  if (fs::exists(FLAGS_mean, error)) return classifier.ReadMean(FLAGS_mean);
  std::vector<float> mean;
  for (const std::string& part : Split(FLAGS_mean, ',')) {
    char* end = nullptr;
    mean.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end != '\0' || !std::isfinite(mean.back())) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--mean: '", FLAGS_mean, "' is neither a file nor numbers with commas"));
    }
  }
  const auto channels = static_cast<size_t>(classifier.channels());
  if (mean.size() == 1) mean.resize(channels, mean[0]);
  if (mean.size() != channels) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--mean has ", mean.size(), " numbers for ", channels, " channels"));
  }
  return mean;
}

std::vector<std::string> LabelsOf(const Classifier& classifier) {
  if (FLAGS_labels.empty()) return {};
  std::vector<std::string> labels = ReadLines(FLAGS_labels);
  if (static_cast<int>(labels.size()) != classifier.classes()) {
    Fail(ErrorCode::kInvalidArgument, StrCat(FLAGS_labels, " has ", labels.size(), " labels, but '",
                                             "the net has ", classifier.classes(), " classes"));
  }
  return labels;
}

std::string LabelOf(const std::vector<std::string>& labels, int index) {
  return labels.empty() ? std::to_string(index) : labels[static_cast<size_t>(index)];
}

std::string Describe(const std::string& image, const std::vector<Prediction>& predictions,
                     const std::vector<std::string>& labels) {
  const size_t most = std::min(predictions.size(), static_cast<size_t>(FLAGS_top));
  std::string text =
      FLAGS_json ? StrCat("{\"image\": ", JsonString(image), ", \"predictions\": [") : image + ":";
  for (size_t k = 0; k < most; ++k) {
    const std::string label = LabelOf(labels, predictions[k].index);
    if (FLAGS_json) {
      text += StrCat(k == 0 ? "" : ", ", "{\"label\": ", JsonString(label),
                     ", \"index\": ", predictions[k].index,
                     ", \"score\": ", JsonNumber(predictions[k].score), "}");
    } else {
      char score[32];
      std::snprintf(score, sizeof(score), "%.4f", predictions[k].score);
      text += StrCat(k == 0 ? " " : ", ", label, " ", score);
    }
  }
  return FLAGS_json ? text + "]}" : text;
}

struct Answer {
  std::string text;
  std::optional<Problem> problem;
};

Answer AnswerOf(Classifier::Worker* worker, const std::string& image,
                const Preprocessing& preprocessing, const std::vector<std::string>& labels) {
  Answer answer;
  try {
    const std::string bytes = ReadFile(image);
    answer.text = Describe(image, worker->Classify(bytes, image, preprocessing), labels);
  } catch (const Error& error) {
    answer.problem = error.problems().front();
  } catch (const std::exception& error) {  // of the decoder
    answer.problem = Problem{ErrorCode::kDataLoss, {}, StrCat(image, ": ", error.what())};
  }
  return answer;
}

// Each worker takes the next image; answers keep the order of the images.
std::vector<Answer> ClassifyAll(const Classifier& classifier,
                                const std::vector<std::string>& images,
                                const Preprocessing& preprocessing,
                                const std::vector<std::string>& labels) {
  std::vector<Answer> answers(images.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // of a worker as a whole; what one image causes is its answer
  const auto work = [&] {
    try {
      Classifier::Worker worker(classifier, 1);
      for (size_t i = next++; i < images.size(); i = next++) {
        answers[i] = AnswerOf(&worker, images[i], preprocessing, labels);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const auto wanted = static_cast<size_t>(CheckedThreads(FLAGS_threads));
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < std::min(wanted, images.size()); ++t) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return answers;
}

int Classify(const std::vector<std::string>& arguments) {
  RequireFlag(FLAGS_model, "model");
  RequireFlag(FLAGS_weights, "weights");
  if (!std::isfinite(FLAGS_scale) || std::abs(FLAGS_scale) > 1e30) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--scale is ", FLAGS_scale));
  }
  if (FLAGS_top < 1) Fail(ErrorCode::kInvalidArgument, StrCat("--top is ", FLAGS_top));
  const std::vector<std::string> images = ImagesOf(arguments);
  const Registry registry = BuiltinRegistry();
  const NetFile net = ReadNet(FLAGS_model);
  const WeightsFiles weights = WeightsOfFlags({FLAGS_weights}, MissingLayers::kError);
  const Classifier classifier(net, weights, FLAGS_output, registry, GlogSink());
  const Preprocessing preprocessing{
      .invert = FLAGS_invert, .scale = static_cast<float>(FLAGS_scale), .mean = MeanOf(classifier)};
  const std::vector<std::string> labels = LabelsOf(classifier);
  int code = 0;
  for (const Answer& answer : ClassifyAll(classifier, images, preprocessing, labels)) {
    if (answer.problem) {
      std::fflush(stdout);
      std::fprintf(stderr, "error: %s\n", ToString(*answer.problem).c_str());
      code = ExitCode(ErrorCode::kDataLoss);
    } else {
      std::printf("%s\n", answer.text.c_str());
    }
  }
  return code;
}

>>>>>>> w/files
int Run(std::vector<std::string> arguments) {
  const std::vector<std::string> known = {"classify", "detect"};
  if (arguments.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "say what to do: deploy classify|detect --model=D --weights=W IMAGE...");
  }
  const std::string action = arguments[0];
  arguments.erase(arguments.begin());
  if (action == "classify") return Classify(arguments);
  if (action == "detect") return Detect(arguments);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("unknown action '", action, "'", DidYouMean(action, known),
              "; this version has: ", Join(known, " ")));
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
