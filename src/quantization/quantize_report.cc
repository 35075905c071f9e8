#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/json.h"
#include "core/strings.h"
#include "quantization/quantize.h"

namespace crema {
namespace {

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string Number(const char* format, double value) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string Percent(double share) {
  return std::isnan(share) ? "-" : Number("%.2f", 100 * share) + " %";
}

}  // namespace

int64_t QuantizeReport::Quantized() const {
  return std::ranges::count(layers, true, &QuantizedLayer::quantized);
}

std::string QuantizeReport::Text() const {
  size_t width = 6;
  for (const QuantizedLayer& layer : layers) width = std::max(width, layer.name.size() + 2);
  for (const QuantizedLayer& output : outputs) width = std::max(width, output.name.size() + 2);
  std::string text =
      StrCat(Padded("layer", width), Padded("type", 14), Padded("input to", 12),
             Padded("SNR dB", 9), Padded("own error", 12), Padded("in the net", 12), "precision\n");
  for (const QuantizedLayer& layer : layers) {
    text += StrCat(
        Padded(layer.name, width), Padded(layer.type, 14),
        Padded(Number("%.4g", layer.input_max), 12), Padded(Number("%.1f", layer.snr_db), 9),
        Padded(Percent(layer.relative_error), 12), Padded(Percent(layer.accumulated_error), 12),
        layer.quantized ? "int8" : StrCat("float: ", layer.reason), "\n");
  }
  text += StrCat(Quantized(), " of ", layers.size(), " layers with products compute in int8; ",
                 batches, " batches of calibration\n");
  for (const QuantizedLayer& output : outputs) {
    text += StrCat("output ", Padded(output.name, width), "error ",
                   Percent(output.accumulated_error), "\n");
  }
  constexpr double kMuch = 0.5;  // nets do not tolerate more noise
  for (const auto* rows : {&layers, &outputs}) {
    for (const QuantizedLayer& row : *rows) {
      if (!(row.accumulated_error > kMuch)) continue;
      text += StrCat("warning: ", row.name, " has lost ", Percent(row.accumulated_error),
                     " in the net; keep layers before it in single precision\n");
    }
  }
  return text;
}

std::string QuantizeReport::Json() const {
  std::vector<std::string> rows, ends;
  for (const QuantizedLayer& l : layers) {
    rows.push_back(
        StrCat("{\"name\":", JsonString(l.name), ",\"type\":", JsonString(l.type),
               ",\"int8\":", l.quantized ? "true" : "false", ",\"reason\":", JsonString(l.reason),
               ",\"input_max\":", JsonNumber(l.input_max), ",\"snr_db\":", JsonNumber(l.snr_db),
               ",\"own_error\":", JsonNumber(l.relative_error),
               ",\"error_in_net\":", JsonNumber(l.accumulated_error), "}"));
  }
  for (const QuantizedLayer& o : outputs) {
    ends.push_back(StrCat("{\"name\":", JsonString(o.name),
                          ",\"error\":", JsonNumber(o.accumulated_error), "}"));
  }
  return StrCat("{\"batches\":", batches, ",\"layers\":[", Join(rows, ","), "],\"outputs\":[",
                Join(ends, ","), "]}");
}

}  // namespace crema
