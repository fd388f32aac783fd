// Result<T>: a value, or every reason why the user's input gave none. gcc 12 has no <expected>, so
// tl::expected (libexpected-dev) stands in; this is the only file that names it.
#ifndef MEGATWIN_MODEL_RESULT_H_
#define MEGATWIN_MODEL_RESULT_H_

#include <utility>

#include <tl/expected.hpp>

#include "model/diagnostic.h"

namespace megatwin::model {

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Diagnostics> {
 public:
  using tl::expected<T, Diagnostics>::expected;
};

// Result<T> from one or many diagnostics.
inline tl::unexpected<Diagnostics> fail(Diagnostics diagnostics) {
  return tl::unexpected<Diagnostics>(std::move(diagnostics));
}
inline tl::unexpected<Diagnostics> fail(Diagnostic diagnostic) {
  return tl::unexpected<Diagnostics>(Diagnostics{std::move(diagnostic)});
}

}  // namespace megatwin::model

#define MEGATWIN_CONCAT_INNER(a, b) a##b
#define MEGATWIN_CONCAT(a, b) MEGATWIN_CONCAT_INNER(a, b)

// Evaluates an expression of type Result<T>; on success declares `declaration` with the value, else
// returns the diagnostics to the caller, whose return type must be a Result too.
#define MEGATWIN_TRY(declaration, expression)                            \
  auto MEGATWIN_CONCAT(megatwin_result_, __LINE__) = (expression);       \
  if (!MEGATWIN_CONCAT(megatwin_result_, __LINE__)) {                    \
    return ::megatwin::model::fail(                                      \
        std::move(MEGATWIN_CONCAT(megatwin_result_, __LINE__)).error()); \
  }                                                                      \
  declaration = *std::move(MEGATWIN_CONCAT(megatwin_result_, __LINE__))

#endif  // MEGATWIN_MODEL_RESULT_H_
