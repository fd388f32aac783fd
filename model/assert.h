// MEGATWIN_ASSERT: an invariant of ours, checked in every build. It prints the expression, the
// values given after it and the place, then aborts (exit 134). Never reachable from user input.
#ifndef MEGATWIN_MODEL_ASSERT_H_
#define MEGATWIN_MODEL_ASSERT_H_

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace megatwin::model {

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line,
                                          const std::ostringstream& values) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s: %s\n", file, line, expression,
               values.str().c_str());
  std::abort();
}

}  // namespace megatwin::model

#define MEGATWIN_ASSERT(condition, ...)                                                     \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      std::ostringstream megatwin_values;                                                   \
      ::megatwin::model::append_values(megatwin_values __VA_OPT__(, ) __VA_ARGS__);         \
      ::megatwin::model::assertion_failed(#condition, __FILE__, __LINE__, megatwin_values); \
    }                                                                                       \
  } while (false)

namespace megatwin::model {

template <class... Values>
void append_values(std::ostringstream& out, const Values&... values) {
  ((out << values), ...);
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_ASSERT_H_
