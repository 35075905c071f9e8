#include "report/page.h"

#include <utility>

#include "common/html_text.h"
#include "core/strings.h"
#include "report/build_info.h"
#include "report/charts.h"

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
                                   R"(style-src 'unsafe-inline'; script-src 'unsafe-inline';)";
constexpr std::string_view kHeadEnd = "\">\n";

constexpr size_t kColors = 8;

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
      "</div><div class=\"axis\" role=\"group\" aria-label=\"Zoom\">"
      "<button type=\"button\" data-zoom=\"in\" aria-label=\"zoom in\">+</button>"
      "<button type=\"button\" data-zoom=\"out\" aria-label=\"zoom out\" disabled>−</button>"
      "<button type=\"button\" data-zoom=\"all\" disabled>all</button></div>"
      "<label class=\"smooth\">smoothing <input type=\"range\" id=\"smoothing\" min=\"0\" "
      "max=\"99\" "
      "value=\"0\"><output for=\"smoothing\">off</output></label></div>";
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
    html += StrCat("<details class=\"card\" data-of=\"", r, "\"><summary class=\"c", r % kColors,
                   "\"><i></i>", HtmlText(run.name), "</summary><dl>");
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

// Says what could not be read.
std::string NotesHtml(const ReportedRuns& reported) {
  std::vector<std::string> notes = reported.notes;
  for (const ReportedRun& one : reported.runs) {
    if (one.run.unreadable == 0) continue;
    notes.push_back(
        StrCat(one.run.name, ": ", one.run.unreadable, " rows of its metrics could not be read."));
  }
  if (reported.runs.empty()) notes.emplace_back("No run is here yet.");
  std::string html;
  for (const std::string& note : notes)
    html += StrCat("<p class=\"note\">", HtmlText(note), "</p>");
  return html.empty() ? html : StrCat("<div id=\"notes\">", html, "</div>\n");
}

}  // namespace

std::string ReportPage(const std::string& title, const ReportedRuns& reported, PageUse use,
                       double time) {
  const std::vector<ReportedRun>& runs = reported.runs;
  std::vector<RunData> data;
  for (const ReportedRun& one : runs) data.push_back(one.run);
  const std::vector<Chart> charts = ChartsOf(data);
  const bool live = use == PageUse::kLive;
  std::string html = StrCat(
      kHead, live ? " connect-src 'self';" : "", kHeadEnd, kPageMark, "\n<title>", HtmlText(title),
      "</title>\n<style>", kPageStyle, "</style>\n</head>\n<body", live ? " data-live" : "",
      ">\n<header><h1>", HtmlText(title), "</h1><p class=\"note\"><span id=\"made\">",
      MinuteForPeople(time), "</span>, crema ", HtmlText(ThisBuild().version),
      live ? "<span id=\"live\" role=\"status\"></span>" : "", "</p></header>\n<main>",
      NotesHtml(reported), ResultsHtml(data, reported.order), ChartsHtml(runs, charts));
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].evaluation) html += EvaluationHtml(runs[r].run, r, *runs[r].evaluation);
  }
  html += StrCat(DetailsHtml(runs), "</main>\n<script type=\"application/json\" id=\"data\">",
                 ScriptJson(ChartsJson(data, charts)), "</script>\n<script>", kPageScript,
                 "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace crema::tools
