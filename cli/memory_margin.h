// What `--memory-margin` may be.
#ifndef MEGATWIN_CLI_MEMORY_MARGIN_H_
#define MEGATWIN_CLI_MEMORY_MARGIN_H_

#include "model/diagnostic.h"

namespace megatwin::cli {

inline model::Diagnostics memory_margin_faults(double margin) {
  if (margin >= 0 && margin < 1) return {};
  return {{.file = "--memory-margin",
           .message = "is no share of the memory",
           .allowed = "from 0 up to, and without, 1: 0.05 keeps 5 % free"}};
}

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_MEMORY_MARGIN_H_
