#include "boxes/yolo.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "boxes/yaml_fields.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

std::vector<double> NumbersIn(std::string_view text, const std::string& file, int line) {
  std::vector<double> numbers;
  for (size_t begin = text.find_first_not_of(" \t"); begin != std::string_view::npos;
       begin = text.find_first_not_of(" \t", begin)) {
    const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    double number = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || last != word.data() + word.size() || !std::isfinite(number)) {
      FailLine(file, line, StrCat("'", word, "' is not a number"));
    }
    numbers.push_back(number);
    begin = end;
  }
  return numbers;
}

// The corners of the numbers after the class.
BoxObject BoxOf(const std::vector<double>& numbers) {
  BoxObject box;
  if (numbers.size() == 5) {
    box.xmin = numbers[1] - numbers[3] / 2;
    box.ymin = numbers[2] - numbers[4] / 2;
    box.xmax = numbers[1] + numbers[3] / 2;
    box.ymax = numbers[2] + numbers[4] / 2;
    return box;
  }
  box.xmin = box.xmax = numbers[1];
  box.ymin = box.ymax = numbers[2];
  for (size_t i = 3; i + 1 < numbers.size(); i += 2) {
    box.xmin = std::min(box.xmin, numbers[i]);
    box.xmax = std::max(box.xmax, numbers[i]);
    box.ymin = std::min(box.ymin, numbers[i + 1]);
    box.ymax = std::max(box.ymax, numbers[i + 1]);
  }
  return box;
}

BoxObject ObjectOf(std::vector<double> numbers, const YoloClasses& classes, const std::string& file,
                   int line) {
  constexpr size_t kOfBox = 5;
  const std::vector<std::string>& names = classes.names;
  if (const size_t more = classes.keypoint_numbers; more > 0) {
    if (numbers.size() != kOfBox + more) {
      FailLine(file, line,
               StrCat("has ", numbers.size(),
                      " numbers; with this kpt_shape a label is `class x y "
                      "width height` and ",
                      more, " numbers of key points"));
    }
    numbers.resize(kOfBox);
  }
  const bool polygon = numbers.size() >= 7 && numbers.size() % 2 == 1;
  if (numbers.size() != kOfBox && !polygon) {
    FailLine(file, line,
             StrCat("has ", numbers.size(), " numbers; a label is `class x y width height`"));
  }
  if (numbers[0] < 0 || numbers[0] >= static_cast<double>(names.size()) ||
      numbers[0] != std::floor(numbers[0])) {
    FailLine(file, line,
             StrCat("class ", numbers[0], " has no name: the names are ", Join(names, ", ")));
  }
  BoxObject box = BoxOf(numbers);
  for (double* corner : {&box.xmin, &box.ymin, &box.xmax, &box.ymax}) {
    constexpr double kRounding = 0.01;
    if (*corner < -kRounding || *corner > 1 + kRounding) {
      FailLine(file, line,
               "the box is outside the picture: numbers are in units of the picture, 0 "
               "to 1, not in pixels");
    }
    *corner = std::clamp(*corner, 0.0, 1.0);
  }
  if (!(box.xmin < box.xmax && box.ymin < box.ymax)) FailLine(file, line, "the box has no area");
  box.name = names[static_cast<size_t>(numbers[0])];
  box.line = line;
  return box;
}

// Returns the names in a list or by number.
std::vector<std::string> NamesOf(const YamlField& field, const std::string& file) {
  std::vector<std::string> names;
  constexpr size_t kMost = 1 << 16;
  for (const auto& [key, name] : field.items) {
    size_t number = names.size();
    if (!key.empty()) {
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
      if (error != std::errc() || end != key.data() + key.size() || number >= kMost) {
        FailLine(file, field.line, StrCat("names: '", key, "' is no number of a class"));
      }
    }
    if (names.size() <= number) names.resize(number + 1);
    names[number] = name;
  }
  return names;
}

std::string ValueOf(const YamlField& field) {
  std::vector<std::string> values;
  for (const YamlItem& item : field.items) values.push_back(item.value);
  return Join(values, " ");
}

// Returns the product of `kpt_shape: [points, numbers of a point]`.
size_t KeypointNumbersOf(const YamlField& field, const std::string& file) {
  const std::vector<double> sizes = NumbersIn(ValueOf(field), file, field.line);
  const auto is_size = [](double size) {
    return size >= 1 && size <= 1000 && size == std::floor(size);
  };
  if (sizes.size() != 2 || !std::ranges::all_of(sizes, is_size)) {
    FailLine(file, field.line, "kpt_shape is [points, 2 or 3 numbers of a point], as in [17, 3]");
  }
  return static_cast<size_t>(sizes[0] * sizes[1]);
}

YoloClasses ClassesOfYaml(const std::string& file) {
  const std::map<std::string, YamlField> fields = ReadYamlFields(file);
  YoloClasses classes;
  const auto names = fields.find("names"), count = fields.find("nc"),
             points = fields.find("kpt_shape");
  if (names != fields.end()) classes.names = NamesOf(names->second, file);
  if (count != fields.end()) {
    const std::vector<double> number = NumbersIn(ValueOf(count->second), file, count->second.line);
    const size_t found = classes.names.size();
    if (number.size() != 1 || !(found == 0 || number[0] == static_cast<double>(found))) {
      FailLine(file, count->second.line,
               StrCat("nc is ", ValueOf(count->second), ", but names has ", found,
                      " classes: correct one of them"));
    }
  }
  if (points != fields.end()) classes.keypoint_numbers = KeypointNumbersOf(points->second, file);
  return classes;
}

}  // namespace

bool IsYaml(const std::string& file) {
  std::string extension = std::filesystem::path(file).extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return tolower(c); });
  return extension == ".yaml" || extension == ".yml";
}

BoxAnnotation ReadYoloLabels(const std::string& file, const YoloClasses& classes) {
  BoxAnnotation annotation;
  annotation.path = file;
  annotation.width = 1;
  annotation.height = 1;
  int line = 0;
  const std::string all = ReadDataFile(file);
  for (const std::string& text : Split(WithoutByteOrderMark(all), '\n')) {
    ++line;
    std::vector<double> numbers = NumbersIn(Trim(text), file, line);
    if (numbers.empty()) continue;
    annotation.objects.push_back(ObjectOf(std::move(numbers), classes, file, line));
  }
  return annotation;
}

YoloClasses ReadYoloClasses(const std::string& file) {
  YoloClasses classes;
  std::vector<std::string>& names = classes.names;
  if (IsYaml(file)) {
    classes = ClassesOfYaml(file);
  } else {
    const std::string text = ReadDataFile(file);
    for (const std::string& line : Split(WithoutByteOrderMark(text), '\n')) {
      if (!Trim(line).empty()) names.emplace_back(Trim(line));
    }
  }
  if (names.empty()) {
    Fail(ErrorCode::kDataLoss, "has no names of classes: write `names: [cat, dog]`",
         {.file = file});
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = std::to_string(i);
  }
  return classes;
}

}  // namespace crema::tools
