#include "cli/report/html_page.h"

#include <string_view>

#include <fmt/format.h>

#include "cli/report/utf8.h"

extern "C" {
extern const char megatwin_report_css_begin[];
extern const char megatwin_report_css_end[];
}

namespace megatwin::cli {

std::string html_page(const HtmlPage& page) {
  const std::string_view css(
      megatwin_report_css_begin,
      static_cast<std::size_t>(megatwin_report_css_end - megatwin_report_css_begin));
  const std::string start = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{} · Megatwin</title>\n"
      "<style>\n{}</style>\n</head>\n<body>\n<header>Megatwin · {}</header>\n<main>\n",
      escape_html(page.title), css, escape_html(page.head));
  return start + page.body + "</main>\n</body>\n</html>\n";
}

std::string html_section(const std::string& title, const std::string& lead,
                         const std::string& body) {
  if (body.empty()) return "";
  std::string html = "<section><h2>" + escape_html(title) + "</h2>";
  if (!lead.empty()) html += "<p class=\"lead\">" + escape_html(lead) + "</p>";
  return html + body + "</section>\n";
}

std::string html_tile(const std::string& name, const std::string& value, const std::string& note,
                      const std::string& css_class) {
  const std::size_t unit = value.find(' ');
  const std::string small = unit == std::string::npos
                                ? ""
                                : " <small>" + escape_html(value.substr(unit + 1)) + "</small>";
  return fmt::format("<div class=\"tile {}\"><span>{}</span><strong>{}{}</strong><em>{}</em></div>",
                     css_class, escape_html(name), escape_html(value.substr(0, unit)), small,
                     escape_html(note));
}

std::string html_list(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string html = "<ul class=\"plain\">";
  for (const std::string& line : lines) html += "<li>" + escape_html(line) + "</li>";
  return html + "</ul>";
}

}  // namespace megatwin::cli
