// What is wrong with a file that a run reads or has written.
#ifndef MEGATWIN_EXEC_FILE_PROBLEM_H_
#define MEGATWIN_EXEC_FILE_PROBLEM_H_

#include <string>
#include <utility>

#include "model/diagnostic.h"

namespace megatwin::exec {

inline model::Diagnostic file_problem(const std::string& file, std::string message,
                                      std::string allowed = {}) {
  return {.file = file, .message = std::move(message), .allowed = std::move(allowed)};
}

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_FILE_PROBLEM_H_
