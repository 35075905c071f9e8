#include "boxes/yolo.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

[[noreturn]] void FailLine(const std::string& file, int line, const std::string& what) {
  Fail(ErrorCode::kDataLoss, what, {.file = file, .line = line, .column = 1});
}

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

std::string WithoutQuotes(std::string_view text) {
  text = Trim(text);
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                      text.back() == text.front();
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

// The part before a comment that stands alone.
std::string_view WithoutComment(std::string_view line) {
  const size_t comment = line.starts_with('#') ? 0 : line.find(" #");
  return comment == std::string_view::npos ? line : line.substr(0, comment);
}

// Collects `names` of a .yaml: [a, b], lines `- a`, or lines `0: a`.
std::vector<std::string> NamesOfYaml(const std::string& text) {
  std::map<int, std::string> names;
  int next = 0;
  bool within = false;
  for (const std::string& whole : Split(text, '\n')) {
    const std::string_view line = WithoutComment(whole);
    const std::string_view item = Trim(line);
    if (item.empty()) continue;
    if (!within) {
      if (!line.starts_with("names:")) continue;
      within = true;
      const std::string_view list = Trim(line.substr(6));
      if (!list.starts_with('[') || !list.ends_with(']')) continue;
      for (const std::string& name : Split(list.substr(1, list.size() - 2), ',')) {
        names[next++] = WithoutQuotes(name);
      }
      break;
    }
    int number = 0;
    const size_t colon = item.find(':');
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (item.starts_with("- ")) {
      names[next++] = WithoutQuotes(item.substr(2));
    } else if (colon != std::string_view::npos && error == std::errc() &&
               end == item.data() + colon && number >= 0) {
      names[number] = WithoutQuotes(item.substr(colon + 1));
    } else {
      break;  // the next key
    }
  }
  std::vector<std::string> all;
  constexpr int kMost = 1 << 16;
  for (const auto& [number, name] : names) {
    if (number >= kMost) break;
    all.resize(static_cast<size_t>(number) + 1);
    all.back() = name;
  }
  return all;
}

// Returns the product of `kpt_shape: [points, numbers of a point]`; 0 without one.
size_t KeypointNumbersOfYaml(const std::string& text, const std::string& file) {
  int number = 0;
  for (const std::string& whole : Split(text, '\n')) {
    ++number;
    const std::string_view line = WithoutComment(whole);
    if (!line.starts_with("kpt_shape:")) continue;
    std::string shape(Trim(line.substr(line.find(':') + 1)));
    std::ranges::replace_if(
        shape, [](char c) { return c == '[' || c == ',' || c == ']'; }, ' ');
    const std::vector<double> sizes = NumbersIn(shape, file, number);
    const auto is_size = [](double size) {
      return size >= 1 && size <= 1000 && size == std::floor(size);
    };
    if (sizes.size() != 2 || !std::ranges::all_of(sizes, is_size)) {
      FailLine(file, number, "kpt_shape is [points, 2 or 3 numbers of a point], as in [17, 3]");
    }
    return static_cast<size_t>(sizes[0] * sizes[1]);
  }
  return 0;
}

}  // namespace

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
  const std::string read = ReadDataFile(file);
  const std::string text(WithoutByteOrderMark(read));
  YoloClasses classes;
  std::vector<std::string>& names = classes.names;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) {
    names = NamesOfYaml(text);
    classes.keypoint_numbers = KeypointNumbersOfYaml(text, file);
  } else {
    for (const std::string& line : Split(text, '\n')) {
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
