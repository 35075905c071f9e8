#include "report/page.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "report/charts.h"
#include "report/html_text.h"

namespace crema::tools {
namespace {

// Forbids external resources, whatever the files contain.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; )"
                                   R"(style-src 'unsafe-inline'; script-src 'unsafe-inline'">
)";

constexpr size_t kColors = 8;

// Equal names would be indistinguishable in legends.
void MakeNamesUnique(std::vector<ReportedRun>* runs) {
  std::set<std::string> names;
  for (ReportedRun& reported : *runs) {
    std::string& name = reported.run.name;
    const std::string first = name;
    for (int i = 2; !names.insert(name).second; ++i) name = StrCat(first, " (", i, ")");
  }
}

std::string RunSwitches(const std::vector<ReportedRun>& runs) {
  std::string html = "<div class=\"runs\" role=\"group\" aria-label=\"Runs\">";
  for (size_t r = 0; r < runs.size(); ++r) {
    html += StrCat("<button type=\"button\" class=\"run c", r % kColors,
                   "\" aria-pressed=\"true\" data-run=\"", r, "\"><i></i>",
                   HtmlText(runs[r].run.name), "</button>");
  }
  return html + "</div>";
}

std::string ChartsHtml(const std::vector<ReportedRun>& runs, const std::vector<Chart>& charts) {
  if (charts.empty()) return {};
  std::string html =
      "<section id=\"curves\"><div class=\"bar\"><h2>Curves</h2><div class=\"axis\" role=\"group\" "
      "aria-label=\"Horizontal axis\">"
      "<button type=\"button\" data-axis=\"iteration\" aria-pressed=\"true\">iterations</button>"
      "<button type=\"button\" data-axis=\"epoch\" aria-pressed=\"false\">epochs</button>"
      "<button type=\"button\" data-axis=\"seconds\" aria-pressed=\"false\">time</button>"
      "</div></div>";
  html += RunSwitches(runs);
  html += "<noscript><p class=\"note\">The curves are drawn by a script; it is off.</p></noscript>";
  html += "<div class=\"charts\">";
  for (size_t c = 0; c < charts.size(); ++c) {
    html += StrCat("<figure class=\"card chart\" data-chart=\"", c, "\"><figcaption><h3>",
                   HtmlText(charts[c].title), "</h3>");
    if (!charts[c].note.empty()) {
      html += StrCat("<span class=\"note\">", HtmlText(charts[c].note), "</span>");
    }
    html +=
        "<button type=\"button\" class=\"log\" aria-pressed=\"false\">log</button></figcaption>"
        "<div class=\"plot\"></div><div class=\"key\"></div></figure>";
  }
  return html + "</div></section>\n";
}

std::string DetailsHtml(const std::vector<ReportedRun>& runs) {
  std::string html;
  for (size_t r = 0; r < runs.size(); ++r) {
    const RunData& run = runs[r].run;
    if (run.facts.empty() && run.solver_text.empty()) continue;
    html += StrCat("<details class=\"card\"><summary class=\"c", r % kColors, "\"><i></i>",
                   HtmlText(run.name), "</summary><dl>");
    for (const auto& [name, value] : run.facts) {
      html += StrCat("<dt>", HtmlText(name), "</dt><dd>", HtmlText(value), "</dd>");
    }
    html += "</dl>";
    if (!run.solver_text.empty()) html += StrCat("<pre>", HtmlText(run.solver_text), "</pre>");
    html += "</details>";
  }
  if (html.empty()) return {};
  return StrCat("<section id=\"details\"><h2>How they were run</h2>", html, "</section>\n");
}

std::string Unreadable(const std::vector<ReportedRun>& runs) {
  std::string html;
  for (const ReportedRun& reported : runs) {
    if (reported.run.unreadable == 0) continue;
    html += StrCat("<p class=\"note\">", HtmlText(reported.run.name), ": ", reported.run.unreadable,
                   " rows of its metrics could not be read.</p>");
  }
  return html;
}

}  // namespace

std::vector<ReportedRun> ReadRuns(const std::vector<std::string>& folders) {
  std::vector<ReportedRun> runs;
  for (const std::string& folder : folders) {
    ReportedRun reported{.run = ReadRun(folder), .evaluation = {}};
    const std::string within = (std::filesystem::path(folder) / "evaluation").string();
    if (HoldsEvaluation(within)) {
      reported.evaluation = ReadEvaluation(within);
    } else if (HoldsEvaluation(folder)) {
      reported.evaluation = ReadEvaluation(folder);
    }
    if (!reported.evaluation && !HoldsMetrics(folder)) {
      Fail(ErrorCode::kNotFound,
           StrCat("'", folder,
                  "' holds neither metrics.csv nor an evaluation; give the folder of a run (train "
                  "--run=DIR) or of evaluate --report=DIR"));
    }
    runs.push_back(std::move(reported));
  }
  MakeNamesUnique(&runs);
  return runs;
}

std::string ReportPage(const std::string& title, const std::vector<ReportedRun>& runs) {
  std::vector<RunData> data;
  for (const ReportedRun& reported : runs) data.push_back(reported.run);
  const std::vector<Chart> charts = ChartsOf(data);
  std::string html(kHead);
  html +=
      StrCat(kPageMark, "\n<title>", HtmlText(title), "</title>\n<style>", kPageStyle,
             "</style>\n</head>\n<body>\n<header><h1>", HtmlText(title), "</h1></header>\n<main>",
             ResultsHtml(data), Unreadable(runs), ChartsHtml(runs, charts));
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].evaluation) html += EvaluationHtml(runs[r].run, r, *runs[r].evaluation);
  }
  html += StrCat(DetailsHtml(runs), "</main>\n<script type=\"application/json\" id=\"data\">",
                 ScriptJson(ChartsJson(data, charts)), "</script>\n<script>", kPageScript,
                 "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace crema::tools
