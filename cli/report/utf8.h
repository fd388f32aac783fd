// Text from files of strangers, made safe to embed: bytes that are no UTF-8 become U+FFFD, and
// control characters that XML and terminals choke on are dropped.
#ifndef MEGATWIN_CLI_REPORT_UTF8_H_
#define MEGATWIN_CLI_REPORT_UTF8_H_

#include <string>
#include <string_view>

namespace megatwin::cli {

std::string valid_utf8(std::string_view text);

// valid_utf8 without control characters, and with & < > " ' as entities: safe as HTML text, as SVG
// text and inside a quoted attribute.
std::string escape_html(std::string_view text);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_UTF8_H_
