// What every HTML file of the program is built of: one page that stands alone (no script, no
// network, light and dark), sections, tiles with a figure each, lists. Fragments are HTML; titles,
// notes and list items are plain text and escaped here.
#ifndef MEGATWIN_CLI_REPORT_HTML_PAGE_H_
#define MEGATWIN_CLI_REPORT_HTML_PAGE_H_

#include <string>
#include <vector>

namespace megatwin::cli {

struct HtmlPage {
  std::string title;
  std::string head;  // After the program's name.
  std::string body;  // HTML.
};
std::string html_page(const HtmlPage& page);

// Nothing when the body is empty.
std::string html_section(const std::string& title, const std::string& lead,
                         const std::string& body);

// The unit is smaller than its number, so that both fit on one line of a phone.
std::string html_tile(const std::string& name, const std::string& value, const std::string& note,
                      const std::string& css_class = "");

std::string html_list(const std::vector<std::string>& lines);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_HTML_PAGE_H_
