// Shows the results of evaluate --report: numbers, confusion matrix, classes, worst samples.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "common/html_text.h"
#include "core/strings.h"
#include "report/page.h"

namespace crema::tools {
namespace {

using Table = EvaluationData::Table;

constexpr size_t kMostHeatClasses = 30;  // larger matrices are shown as a picture
constexpr size_t kMostPairs = 12;

double NumberIn(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? NAN : value;
}

struct Tile {
  const char* name;
  const char* title;
  bool share;  // shown in percent
};

constexpr Tile kTiles[] = {{"top1", "top-1 accuracy", true},
                           {"top5", "top-5 accuracy", true},
                           {"mean_iou", "mean IoU", true},
                           {"pixel_accuracy", "pixel accuracy", true},
                           {"mean_class_accuracy", "mean class accuracy", true},
                           {"map_voc07", "mAP, VOC07", true},
                           {"map_voc12", "mAP, VOC12", true},
                           {"map_coco", "mAP, COCO", true},
                           {"map_coco50", "COCO, overlap 0.5", true},
                           {"map_coco75", "COCO, overlap 0.75", true},
                           {"auc", "AUC", false},
                           {"auc_macro", "AUC, mean of classes", false},
                           {"log_loss", "log loss", false},
                           {"loss", "loss", false},
                           {"samples", "samples", false}};

std::string TileHtml(const std::string& title, double value, bool share) {
  const std::string text = share ? PercentForPeople(value, 2) : NumberForPeople(value);
  return StrCat("<div class=\"tile\"><b>", text, "</b><span>", HtmlText(title), "</span></div>");
}

std::string TilesHtml(const EvaluationData& evaluation) {
  std::string html = "<div class=\"tiles\">";
  for (const Tile& tile : kTiles) {
    const auto found = evaluation.summary.find(tile.name);
    const bool redundant = std::string_view(tile.name) == "loss" &&
                           evaluation.summary.contains("log_loss");  // usually equal
    if (found == evaluation.summary.end() || redundant) continue;
    html += TileHtml(tile.title, NumberIn(found->second), tile.share);
  }
  const auto f1 = evaluation.macro.find("f1");
  if (f1 != evaluation.macro.end()) html += TileHtml("macro F1", NumberIn(f1->second), true);
  return html + "</div>";
}

// Returns the counts of the matrix without its header; empty unless it is square.
std::vector<std::vector<double>> Counts(const Table& table) {
  std::vector<std::vector<double>> counts;
  if (table.empty() || table.size() != table[0].size()) return counts;
  for (size_t t = 1; t < table.size(); ++t) {
    std::vector<double>& row = counts.emplace_back();
    for (size_t p = 1; p < table[t].size(); ++p) row.push_back(NumberIn(table[t][p]));
  }
  return counts;
}

std::string HeatHtml(const Table& table, const std::vector<std::vector<double>>& counts) {
  std::string html =
      "<div class=\"scroll\"><table class=\"heat\"><thead><tr><th class=\"corner\">true \\ "
      "predicted</th>";
  for (size_t p = 1; p < table[0].size(); ++p) {
    html += StrCat("<th scope=\"col\"><span>", HtmlText(table[0][p]), "</span></th>");
  }
  html += "</tr></thead><tbody>";
  for (size_t t = 0; t < counts.size(); ++t) {
    double support = 0;
    for (const double count : counts[t]) support += count;
    html += StrCat("<tr><th scope=\"row\">", HtmlText(table[t + 1][0]), "</th>");
    for (size_t p = 0; p < counts[t].size(); ++p) {
      const double share = support > 0 ? counts[t][p] / support : 0;
      char depth[16];
      std::snprintf(depth, sizeof(depth), "%.3f", std::sqrt(share));
      html += StrCat("<td class=\"", t == p ? "right" : "wrong", share > 0.3 ? " deep" : "",
                     "\" style=\"--v:", depth, "\" title=\"", HtmlText(table[t + 1][0]), " as ",
                     HtmlText(table[0][p + 1]), ": ", PercentForPeople(share, 1), "\">",
                     counts[t][p] > 0 ? HtmlText(table[t + 1][p + 1]) : std::string(), "</td>");
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

struct Pair {
  double count = 0;
  size_t truth = 0;
  size_t predicted = 0;
};

std::string PairsHtml(const Table& table, const std::vector<std::vector<double>>& counts) {
  std::vector<Pair> pairs;
  for (size_t t = 0; t < counts.size(); ++t) {
    for (size_t p = 0; p < counts[t].size(); ++p) {
      if (t != p && counts[t][p] > 0) pairs.push_back({counts[t][p], t, p});
    }
  }
  if (pairs.empty()) return {};
  std::ranges::stable_sort(pairs, std::ranges::greater{}, &Pair::count);
  pairs.resize(std::min(pairs.size(), kMostPairs));
  std::string html = "<h4>Most frequent mistakes</h4><ol class=\"pairs\">";
  for (const Pair& pair : pairs) {
    html += StrCat("<li><b>", NumberForPeople(pair.count), "</b> ",
                   HtmlText(table[pair.truth + 1][0]), " <span class=\"as\">taken for</span> ",
                   HtmlText(table[0][pair.predicted + 1]), "</li>");
  }
  return html + "</ol>";
}

std::string ConfusionHtml(const EvaluationData& evaluation) {
  const std::vector<std::vector<double>> counts = Counts(evaluation.confusion);
  if (counts.empty()) return {};
  std::string html = "<div class=\"card\"><h3>Confusion matrix</h3>";
  if (counts.size() <= kMostHeatClasses) {
    html += HeatHtml(evaluation.confusion, counts);
  } else if (const std::string png = FileOfEvaluation(evaluation, "confusion_matrix.png");
             !png.empty()) {
    html += StrCat(
        "<img class=\"matrix\" alt=\"Confusion matrix, true classes down, predicted "
        "ones across\" src=\"",
        PngUri(png), "\">");
  }
  return html + PairsHtml(evaluation.confusion, counts) + "</div>";
}

std::string ClassesHtml(const Table& table) {
  if (table.size() < 2) return {};
  constexpr size_t kMostOpen = 24;
  std::string html = StrCat("<details class=\"card\"", table.size() <= kMostOpen ? " open" : "",
                            "><summary>Classes</summary><div class=\"scroll\"><table "
                            "class=\"classes\"><thead><tr>");
  for (const std::string& name : table[0]) {
    if (name != "class") html += StrCat("<th scope=\"col\">", HtmlText(name), "</th>");
  }
  html += "</tr></thead><tbody>";
  for (size_t i = 1; i < table.size(); ++i) {
    html += "<tr>";
    for (size_t c = 0; c < table[i].size(); ++c) {
      if (table[0][c] == "class") continue;
      const double value = NumberIn(table[i][c]);
      if (table[0][c] == "name") {
        html += StrCat("<th scope=\"row\">", HtmlText(table[i][c]), "</th>");
      } else {
        html += StrCat("<td>", std::isfinite(value) ? NumberForPeople(value) : "–", "</td>");
      }
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div></details>";
}

std::string WorstHtml(const EvaluationData& evaluation) {
  if (evaluation.worst.size() < 2) return {};
  std::string html = "<div class=\"card\"><h3>Worst samples</h3><div class=\"gallery\">";
  for (size_t i = 1; i < evaluation.worst.size(); ++i) {
    std::map<std::string, std::string> of;
    for (size_t c = 0; c < evaluation.worst[i].size(); ++c) {
      of[evaluation.worst[0][c]] = evaluation.worst[i][c];
    }
    const std::string png = FileOfEvaluation(evaluation, of["picture"]);
    const std::string name = of["name"].empty() ? "sample " + of["sample"] : of["name"];
    html += "<figure class=\"worst\">";
    if (!png.empty()) {
      html +=
          StrCat("<img loading=\"lazy\" alt=\"", HtmlText(name), "\" src=\"", PngUri(png), "\">");
    } else {
      html += "<div class=\"blank\"></div>";
    }
    html += StrCat("<figcaption><span class=\"truth\">", HtmlText(of["label_name"]),
                   "</span> <span class=\"as\">taken for</span> <span class=\"guess\">",
                   HtmlText(of["predicted_name"]), "</span> <span class=\"as\">",
                   PercentForPeople(NumberIn(of["probability"]), 1), "</span><small title=\"",
                   HtmlText(name), "\">", HtmlText(name), "</small></figcaption></figure>");
  }
  return html + "</div></div>";
}

// Returns N of "..._iter_N.caffemodel"; -1 for other names.
double IterationOf(const std::string& weights) {
  constexpr std::string_view kMark = "_iter_";
  const size_t at = weights.rfind(kMark);
  if (at == std::string::npos) return -1;
  const size_t begin = at + kMark.size();
  const size_t end = std::min(weights.find_first_not_of("0123456789", begin), weights.size());
  return end == begin ? -1 : NumberIn(weights.substr(begin, end - begin));
}

// Says which weights were evaluated, and if the run has gone on since.
std::string WeightsHtml(const RunData& run, const EvaluationData& evaluation) {
  const auto weights = evaluation.summary.find("weights");
  if (weights == evaluation.summary.end()) return {};
  const double last = CompletedIterations(run);
  const double iteration = IterationOf(weights->second);
  std::string html = StrCat("<p class=\"note\">weights ", HtmlText(weights->second));
  if (iteration >= 0 && iteration < last) {
    html += StrCat("; <b>the run has reached iteration ", NumberForPeople(last), " since</b>");
  }
  return html + "</p>";
}

}  // namespace

std::string EvaluationHtml(const RunData& run, size_t index, const EvaluationData& evaluation) {
  return StrCat("<section class=\"evaluation\" id=\"evaluation", index, "\"><h2 class=\"c",
                index % 8, "\"><i></i>Evaluation of ", HtmlText(run.name), "</h2>",
                WeightsHtml(run, evaluation), TilesHtml(evaluation), "<div class=\"beside\">",
                ConfusionHtml(evaluation), ClassesHtml(evaluation.classes), "</div>",
                WorstHtml(evaluation), "</section>\n");
}

}  // namespace crema::tools
